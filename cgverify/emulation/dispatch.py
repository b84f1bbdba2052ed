"""One aten op on the emulated device: decide where it runs, then run it, or record it if a capture is under way.

An op with a tensor of the arena among its arguments is a device op; CPU kernels compute it and fresh results move into
the arena. During a capture a device op is checked for legality, its results are allocated from the graph's memory pool,
and the launch is recorded and not run. Views and host ops happen at once and are never recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cgverify.emulation.calls import Call, is_fake, is_faking
from cgverify.emulation.copies import COPIES, CPU
from cgverify.emulation.execution import begin_op, decompose, run
from cgverify.emulation.legality import check_capturable
from cgverify.emulation.ops import describe
from cgverify.emulation.recording import record

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA


def dispatch(cuda: EmulatedCUDA, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run or record one op; returns what it returns."""
    if is_faking() or func.namespace == "prim":
        return func(*args, **kwargs)
    call = Call(func, info := describe(func), args, kwargs)
    tensors = call.tensors()
    if any(t.is_meta or is_fake(t) for t in tensors):
        return func(*args, **kwargs)  # somebody is tracing: not our device
    if info.name in COPIES:
        return COPIES[info.name](cuda, call)
    device = [t for t in tensors if cuda.is_on_device(t)]
    if info.is_factory:
        call, on_device = _place(cuda, call, tensors, device)
        if not on_device:
            return _make_on_host(cuda, call)
    elif not device:
        return func(*args, **kwargs)  # host work: runs now, never recorded
    capture = begin_op(cuda, launches=not (info.is_empty or info.is_view))
    host = [t for t in tensors if t.dim() and not cuda.is_on_device(t)] if len(device) != len(tensors) else []
    if host and not (info.mixes_host or info.is_factory):  # x_host.new_zeros(2, device="cuda") is fine
        raise RuntimeError(_mixed_devices_message(call, host[0]))
    if info.is_composite:
        result = decompose(cuda, call)
        if result is not NotImplemented:
            return result
    if info.is_view:
        return func(*args, **kwargs)
    if capture is None:
        return run(cuda, call)
    check_capturable(cuda, call, host)
    return record(cuda, capture, call)


def _place(
    cuda: EmulatedCUDA, call: Call, tensors: list[torch.Tensor], device: list[torch.Tensor]
) -> tuple[Call, bool]:
    """Decide whether a factory's result lies on the device; returns the call for a CPU kernel as well."""
    target, placement = call.kwargs.get("device"), cuda.thread.placement
    if target is not None and target.type == "cuda":  # named by code that the function mode does not see
        return call.changed(device=CPU), True
    if target is not None and target.type != "cpu":
        return call, False
    if placement.explicit or not tensors:
        return call, placement.on_device
    return call, bool(device)


def _make_on_host(cuda: EmulatedCUDA, call: Call) -> Any:
    if call.kwargs.get("pin_memory"):
        return cuda.pin(call.changed(pin_memory=False).run())
    return call.run()


def _mixed_devices_message(call: Call, host: torch.Tensor) -> str:
    """Return torch's text for a CPU tensor among CUDA tensors: elementwise ops and generated wrappers differ."""
    named = [name for name, value in zip(call.info.arguments, call.args, strict=False) if value is host]
    found = (
        f"got {named[0]} is on cpu, different from other tensors on cuda:0 (when checking argument in method "
        f"wrapper_CUDA_{call.info.name.removeprefix('aten::')})"
        if named and not call.info.iterates
        else "found at least two devices, cuda:0 and cpu!"
    )
    return f"Expected all tensors to be on the same device, but {found}"
