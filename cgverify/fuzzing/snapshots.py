"""What the fuzzer remembers of a value: its bits and everything a caller can see of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A tensor, a number or None at one moment.

    Attributes:
        kind: `tensor`, or the type name of anything else.
        bits: the elements in row-major order, as bytes.
        dtype: the tensor's dtype, as text; so are the other fields empty for anything but a tensor.
        shape: its sizes.
        strides: its strides.
        device: `cuda:0` or `cpu`.
        requires_grad: whether autograd tracks it.
    """

    kind: str
    bits: bytes
    dtype: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    device: str = ""
    requires_grad: bool = False

    def tensor(self) -> torch.Tensor:
        """Return the remembered tensor, on the CPU."""
        dtype = getattr(torch, self.dtype.removeprefix("torch."))
        if not self.bits:
            return torch.empty(self.shape, dtype=dtype)
        return torch.frombuffer(bytearray(self.bits), dtype=dtype).view(self.shape)

    def describe(self) -> str:
        """Return a short text for a message."""
        if self.kind != "tensor":
            return f"{self.kind} {self.bits.hex() or ''}".strip()
        values = self.tensor().flatten()[:6].tolist()
        shown = ", ".join(f"{value:.6g}" if isinstance(value, float) else str(value) for value in values)
        return f"{self.dtype} {list(self.shape)} [{shown}{', ...' if self.tensor().numel() > 6 else ''}]"


def take_snapshots(values: Sequence[Any]) -> list[Snapshot]:
    """Remember tensors, numbers and None."""
    devices = [str(value.device) if isinstance(value, torch.Tensor) else "" for value in values]
    with plain_torch():
        return [_snapshot(value, device) for value, device in zip(values, devices, strict=True)]


@contextmanager
def plain_torch() -> Iterator[None]:
    """Switch off torch's Python modes: under the emulation, reading its memory directly is several times faster."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


def _snapshot(value: Any, device: str) -> Snapshot:
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        shape, strides = tuple(plain.shape), plain.stride()
        return Snapshot("tensor", read_bits(plain), str(plain.dtype), shape, strides, device, value.requires_grad)
    kind = type(value).__name__
    if isinstance(value, float):
        return Snapshot(kind, struct.pack("<d", value))
    return Snapshot(kind, repr(value).encode())


def read_bits(tensor: torch.Tensor) -> bytes:
    """Return the elements in row-major order as bytes; NaN payloads and signs of zero included."""
    host = tensor.cpu().contiguous()
    if host.numel() == 0:
        return b""
    # A dimension of size one may have any stride and still count as contiguous, so `view(-1)` may not pack.
    raw: bytes = host.as_strided((host.numel(),), (1,)).view(torch.uint8).numpy().tobytes()
    return raw


def relate(values: Sequence[Any]) -> dict[tuple[int, int], int]:
    """Say which tensors overlap in memory: `(i, j) -> bytes from the start of i to the start of j`, for i < j."""
    with plain_torch():
        ranges = [_extent(value) for value in values]
    found = {}
    for j, second in enumerate(ranges):
        for i, first in enumerate(ranges[:j]):
            if first is not None and second is not None and first[0] < second[1] and second[0] < first[1]:
                found[i, j] = second[0] - first[0]
    return found


def _extent(value: Any) -> tuple[int, int] | None:
    """Return the first byte of a tensor and the one after its last."""
    if not isinstance(value, torch.Tensor) or value.numel() == 0:
        return None
    start = value.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    return start, start + (last + 1) * value.element_size()
