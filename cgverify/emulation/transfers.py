"""`.to()`, `.cuda()` and `.cpu()` of tensors on or for the emulated device, differentiable as torch's are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA

CUDA0 = torch.device("cuda:0")
CPU = torch.device("cpu")
_Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class _Request:
    """What a call asks for; None: as it is."""

    device: torch.device | None
    dtype: torch.dtype | None = None
    non_blocking: bool = False
    copy: bool = False
    memory_format: torch.memory_format | None = None


def transfer(cuda: EmulatedCUDA, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer Tensor.to, Tensor.cuda or Tensor.cpu (`func`), called with these arguments."""
    source = args[0]
    request = _parse(cuda, func, args[1:], kwargs)
    if request.device is not None and request.device.type not in ("cuda", "cpu"):
        return func(*args, **kwargs)
    on_device = cuda.is_on_device(source)
    to_device = on_device if request.device is None else request.device.type == "cuda"
    dtype = request.dtype or source.dtype
    if to_device != on_device:
        if source.requires_grad and torch.is_grad_enabled():
            return _Move.apply(source, cuda, to_device, request)  # type: ignore[no-untyped-call]
        return _move(cuda, source, to_device, dtype, request)
    if not (request.copy or dtype is not source.dtype or request.memory_format is not None):
        return source
    return source.to(dtype=dtype, copy=request.copy, **_format(request))


def _parse(cuda: EmulatedCUDA, func: Any, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> _Request:
    memory_format = kwargs.get("memory_format")
    if func is _Tensor.cpu:
        return _Request(CPU, memory_format=memory_format or (rest[0] if rest else None))
    if func is _Tensor.cuda:
        flags = [value for value in rest if isinstance(value, bool)]
        non_blocking = bool(kwargs.get("non_blocking", flags[0] if flags else False))
        return _Request(CUDA0, non_blocking=non_blocking, memory_format=memory_format)
    copy = bool(kwargs.get("copy", False))
    named = {key: value for key, value in kwargs.items() if key not in ("copy", "other")}
    other = kwargs.get("other", rest[0] if rest and isinstance(rest[0], torch.Tensor) else None)
    if other is not None:
        rest = rest[1:] if "other" not in kwargs else rest
        flags = [*rest, named.pop("non_blocking", False)]
        device = CUDA0 if cuda.is_on_device(other) else other.device
        return _Request(device, other.dtype, bool(flags[0]), copy or (len(rest) > 1 and rest[1]), memory_format)
    if sum(isinstance(value, bool) for value in rest) > 1:  # (..., non_blocking, copy)
        rest, copy = rest[:-1], rest[-1]
    device, dtype, non_blocking, memory_format = torch._C._nn._parse_to(*rest, **named)
    return _Request(device, dtype, non_blocking, copy, memory_format)


def _move(
    cuda: EmulatedCUDA, source: torch.Tensor, to_device: bool, dtype: torch.dtype, request: _Request
) -> torch.Tensor:
    cuda.thread.transfer = (to_device, request.non_blocking)  # for the _to_copy that comes next
    try:
        moved: torch.Tensor = torch.ops.aten._to_copy.default(source, dtype=dtype, **_format(request))
        return moved
    finally:
        cuda.thread.transfer = None


def _format(request: _Request) -> dict[str, torch.memory_format]:
    return {} if request.memory_format is None else {"memory_format": request.memory_format}


class _Move(torch.autograd.Function):
    """A transfer whose gradient goes back to where the source lies, in the source's dtype."""

    @staticmethod
    def forward(ctx: Any, source: torch.Tensor, cuda: EmulatedCUDA, to_device: bool, request: _Request) -> torch.Tensor:
        ctx.cuda, ctx.back, ctx.dtype = cuda, not to_device, source.dtype
        return _move(cuda, source, to_device, request.dtype or source.dtype, request)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        device = CUDA0 if ctx.back else CPU
        return transfer(ctx.cuda, _Tensor.to, (gradients[0], device, ctx.dtype), {}), None, None, None
