"""Memory layouts: spans, overlaps, and buffers that stand in for a tensor at the same alignment.

A *span* is the range of elements a strided tensor touches, from its first to one past its last. Kernels choose vector
widths by the alignment of addresses, and another width sums in another order, so a buffer that stands in for a tensor
keeps its address modulo `ALIGNMENT` bytes.
"""

from __future__ import annotations

import torch

ALIGNMENT = 16


def span(size: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Elements from the first to the last one touched; 0 for an empty tensor."""
    total = 1
    for extent, step in zip(size, stride, strict=True):
        if extent == 0:
            return 0
        total += (extent - 1) * step
    return total


def may_overlap_itself(size: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Whether two indices may name the same element: true if, by ascending stride, a step lies inside the span so far.

    Exact for what slicing, transposing and expanding make; for exotic strides it may say true without need. A tensor
    without elements has no two indices.
    """
    if 0 in size:
        return False
    covered = 1
    for step, extent in sorted((step, extent) for extent, step in zip(size, stride, strict=True) if extent > 1):
        if step < covered:
            return True
        covered += (extent - 1) * step
    return False


def without_repeats(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` with each dimension of stride 0 narrowed to one element, so that it can be copied into."""
    if 0 not in tensor.stride():
        return tensor
    size = tuple(1 if step == 0 else extent for extent, step in zip(tensor.size(), tensor.stride(), strict=True))
    return tensor.as_strided(size, tensor.stride())


def copyable(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the same elements that no index names twice: `tensor` itself, or its span as a flat tensor."""
    narrow = without_repeats(tensor)
    if may_overlap_itself(narrow.size(), narrow.stride()):
        return tensor.as_strided((span(tensor.size(), tensor.stride()),), (1,))
    return narrow


_BITS = {
    dtype: torch.int16 if dtype.itemsize == 2 else torch.uint8 if dtype.itemsize == 1 else torch.int32
    for dtype in (
        *(torch.float16, torch.bfloat16, torch.complex32),
        *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    )
}


def as_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself, or for the small floating-point dtypes its bits as integers.

    A grouped copy on CUDA takes those through float32, which turns a signalling NaN into a quiet one.
    """
    dtype = _BITS.get(tensor.dtype)
    return tensor if dtype is None else tensor.view(dtype)


def alignment(tensor: torch.Tensor) -> int:
    """The tensor's address modulo `ALIGNMENT`, in bytes."""
    return tensor.data_ptr() % ALIGNMENT


def buffer_like(tensor: torch.Tensor) -> torch.Tensor:
    """Fresh uninitialised memory with the size, strides, dtype, device and alignment of `tensor`."""
    elements = span(tensor.size(), tensor.stride())
    lead = alignment(tensor) // tensor.element_size()
    flat = torch.empty(elements + lead, dtype=tensor.dtype, device=tensor.device)
    return flat.as_strided(tensor.size(), tensor.stride(), lead)


def buffer_in(store: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """A view of the bytes in `store` with the size, strides, dtype and alignment of `tensor`.

    Args:
        store: flat uint8 memory at an address that is a multiple of `ALIGNMENT`, its length one too.
        tensor: what the view stands in for.
    """
    lead = alignment(tensor) // tensor.element_size()
    return store.view(tensor.dtype).as_strided(tensor.size(), tensor.stride(), lead)


def byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First address touched and one past the last; equal for an empty tensor."""
    start = tensor.data_ptr()
    return start, start + span(tensor.size(), tensor.stride()) * tensor.element_size()


def storage_address(tensor: torch.Tensor) -> int:
    """Address of the storage, which all views of it share; 0 for one without memory."""
    return tensor.untyped_storage().data_ptr()
