"""Copies between and within device and host memory, and pinning: the ops whose arguments may lie in both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cgverify.emulation.calls import Call, tensors_in
from cgverify.emulation.execution import begin_op, move_in, run
from cgverify.emulation.ops import describe
from cgverify.emulation.recording import dry_run, record, record_transfer

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA

CPU = torch.device("cpu")


def copy_in_place(cuda: EmulatedCUDA, call: Call) -> Any:
    """copy_(target, source, non_blocking): a launch, or a transfer if one of them is on the host."""
    target, source = call.args[:2]
    to_device, from_device = cuda.is_on_device(target), cuda.is_on_device(source)
    if not (to_device or from_device):
        return call.run()
    capture = begin_op(cuda)
    if to_device != from_device:
        non_blocking = bool(call.argument(2) or call.argument("non_blocking"))
        cuda.check_host_copy(cuda.is_pinned(source if to_device else target), non_blocking)
    if capture is None:
        return call.run()
    if to_device and from_device:
        return record(cuda, capture, call)
    record_transfer(cuda, capture, target, source)
    return target


def copy_to(cuda: EmulatedCUDA, call: Call) -> Any:
    """_to_copy(source, dtype=, device=, ...): within one memory, or where the transfer under way goes."""
    source, device = call.args[0], call.kwargs.get("device")
    transfer, cuda.thread.transfer = cuda.thread.transfer, None
    if device is not None and device.type not in ("cpu", "cuda"):
        return call.run()
    from_device = cuda.is_on_device(source)
    to_device, non_blocking = transfer or (from_device, False)
    if transfer is None and device is not None and device.type == "cuda":
        to_device, non_blocking, call = True, bool(call.kwargs.get("non_blocking")), call.changed(device=CPU)
    if not (to_device or from_device):
        pinned = bool(call.kwargs.get("pin_memory"))
        return cuda.pin(call.changed(pin_memory=False).run()) if pinned else call.run()
    capture = begin_op(cuda)
    if to_device == from_device:
        return run(cuda, call) if capture is None else record(cuda, capture, call)
    # a transfer to the host that does not block gets a pinned result
    cuda.check_host_copy(non_blocking if from_device else cuda.is_pinned(source), non_blocking)
    result = call.run() if capture is None else dry_run(call)
    if to_device:
        result = move_in(cuda, result)
    elif non_blocking:
        result = cuda.pin(result)
    if capture is not None:
        record_transfer(cuda, capture, result, source)
    return result


def copy_group(cuda: EmulatedCUDA, call: Call) -> Any:
    """_foreach_copy_: one launch between device tensors, else a copy each, as the CUDA implementation does."""
    places = {cuda.is_on_device(tensor) for tensor in tensors_in(call.args)}
    if len(places) > 1:
        copy = torch.ops.aten.copy_.default
        for target, source in zip(*call.args[:2], strict=True):
            copy_in_place(cuda, Call(copy, describe(copy), (target, source, *call.args[2:]), call.kwargs))
        return None
    capture = begin_op(cuda) if True in places else None
    return call.run() if capture is None else record(cuda, capture, call)


def is_pinned(cuda: EmulatedCUDA, call: Call) -> bool:
    """Whether a tensor is in pinned host memory."""
    return cuda.is_pinned(call.args[0])


def pin(cuda: EmulatedCUDA, call: Call) -> torch.Tensor:
    """Copy a host tensor to pinned memory."""
    if cuda.is_on_device(call.args[0]):
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
    return cuda.pin(call.args[0])


COPIES = {
    "aten::copy_": copy_in_place,
    "aten::_to_copy": copy_to,
    "aten::_foreach_copy_": copy_group,
    "aten::is_pinned": is_pinned,
    "aten::_pin_memory": pin,
}
