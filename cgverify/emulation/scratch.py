"""CPU tensors that stand for an op's arguments while a capture asks what the op would return."""

from __future__ import annotations

from collections.abc import Sequence

from cgverify.emulation.arena import extent

import torch

_ALIGNMENT = 16  # bytes; a multiple of every dtype's size


def zeros_like(tensor: torch.Tensor) -> torch.Tensor:
    """Return zeros of the same size, strides and dtype."""
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype).zero_()


def meta_like(tensor: torch.Tensor) -> torch.Tensor:
    """Return a meta tensor of the same size, strides and dtype."""
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


class Scratch:
    """Stand-ins filled with 0 or 1, with the same overlaps among them as some tensors have."""

    def __init__(self, tensors: Sequence[torch.Tensor], value: int) -> None:
        self._value = value
        self._spans: dict[int, tuple[int, int]] = {}  # storage address -> addresses of the bytes that are used
        self._buffers: dict[int, torch.UntypedStorage] = {}
        for tensor in tensors:
            storage, start, end = _place(tensor)
            low, high = self._spans.get(storage, (start, end))
            self._spans[storage] = min(low, start), max(high, end)

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the stand-in for one of the tensors."""
        storage, start, end = _place(tensor)
        if start == end or tensor.is_conj() or tensor.is_neg():
            return zeros_like(tensor).fill_(self._value)
        low, high = self._spans[storage]
        low -= low % _ALIGNMENT
        if storage not in self._buffers:
            self._buffers[storage] = torch.zeros(high - low, dtype=torch.uint8).untyped_storage()
        stand_in = torch.empty(0, dtype=tensor.dtype)
        offset = (start - low) // tensor.element_size()
        stand_in.set_(self._buffers[storage], offset, tensor.size(), tensor.stride())
        return stand_in.fill_(self._value) if self._value else stand_in


def _place(tensor: torch.Tensor) -> tuple[int, int, int]:
    """Return the address of the tensor's storage, of its first byte and past its last."""
    start = tensor.data_ptr()
    end = start + extent(tensor.size(), tensor.stride()) * tensor.element_size()
    return tensor.untyped_storage().data_ptr(), start, end
