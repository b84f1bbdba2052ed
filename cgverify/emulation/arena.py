"""The memory behind the emulated device: one mapping, cut up by the caching allocator, seen through torch tensors.

A tensor is "on the device" if and only if its address lies in the arena, as cudaPointerGetAttributes would say. Each
block's storage is owned by a numpy view of the mapping; when the last tensor on it dies, in Python or in C++ (autograd
saves tensors too), the view's destructor gives the block back. So blocks are freed exactly when CUDA tensors would be.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any

from cgverify.emulation.allocator import ArenaFull, CachingAllocator
from cgverify.emulation.blocks import Block, Pool

import numpy as np
import torch

NULL_SIZE = 16  # bytes of a zero-size tensor's storage: a multiple of every dtype's size
POISON = 0xFF  # all-ones bytes: NaN in every floating-point type, -1 in signed integers


class _Owner(np.ndarray):
    """Owns one block's storage; torch drops it when the last tensor on the storage dies."""

    block: Block | None = None
    allocator: CachingAllocator | None = None

    def __del__(self) -> None:
        block, self.block = self.block, None
        if block is not None and self.allocator is not None:
            self.allocator.free(block)


class Arena:
    """`capacity` bytes of address space; only pages that are touched cost memory.

    The first 2 MiB hold nothing but the one address that all zero-size tensors share.
    """

    def __init__(self, capacity: int, *, name: str = "CUDA") -> None:
        self.name = name
        self.allocator = CachingAllocator(capacity)
        self._bytes = np.frombuffer(mmap.mmap(-1, capacity), dtype=np.uint8)
        self.base: int = self._bytes.ctypes.data
        self.end = self.base + capacity
        self._storage = torch.from_numpy(self._bytes).untyped_storage()

    def owns(self, address: int) -> bool:
        """Whether the address lies in the arena."""
        return self.base <= address < self.end

    def block_of(self, tensor: torch.Tensor) -> Block | None:
        """Return the live block that holds the tensor's storage; None for a zero-size one."""
        return self.allocator.live.get(tensor.untyped_storage().data_ptr() - self.base)

    def allocate(self, nbytes: int, pool: Pool, stream: int) -> Block:
        """Return a block of `nbytes` (> 0); raises torch.OutOfMemoryError when the arena is full."""
        try:
            return self.allocator.allocate(nbytes, pool, stream)
        except ArenaFull as error:
            raise torch.OutOfMemoryError(
                f"{self.name} out of memory. Tried to allocate {nbytes} bytes: the emulated memory has {error}; "
                "free tensors or graphs, or pass a larger capacity= to EmulatedCUDA."
            ) from None

    def tensor(
        self, block: Block | None, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor:
        """Return the tensor that owns `block` from its first byte; None: a zero-size tensor."""
        offset, nbytes = (block.offset, block.requested) if block is not None else (0, NULL_SIZE)
        memory: Any = self._bytes[offset : offset + nbytes].view(_Owner)
        memory.block, memory.allocator = block, self.allocator
        storage = torch.from_numpy(memory)
        if dtype is torch.uint8:
            return storage.as_strided(size, stride)
        return torch.empty(0, dtype=dtype).set_(storage.untyped_storage(), 0, size, stride)

    def raw_view(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the same memory without keeping it alive: what a kernel launch bakes in."""
        address = tensor.data_ptr() or tensor.untyped_storage().data_ptr()
        view = torch.empty(0, dtype=tensor.dtype)
        start = (address - self.base) // tensor.element_size()
        view.set_(self._storage, start, tensor.size(), tensor.stride())
        if tensor.is_conj():
            view = view.conj()
        return view._neg_view() if tensor.is_neg() else view

    def start_of_storage(self, tensor: torch.Tensor) -> int:
        """Return how many elements before the tensor's storage the arena, a raw view's storage, begins."""
        return (tensor.untyped_storage().data_ptr() - self.base) // tensor.element_size()

    def fill(self, offset: int, size: int, value: int = POISON) -> None:
        """Set `size` bytes at `offset` to `value`."""
        ctypes.memset(self.base + offset, value, size)


def extent(size: Sequence[int], stride: Sequence[int]) -> int:
    """Return the number of elements that a strided tensor spans; 0 if it has none."""
    if 0 in size:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
