"""Running device ops at once: CPU kernels compute, and fresh results move into the arena."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cgverify.emulation.calls import Call, map_tensors
from cgverify.emulation.capture import Capture
from cgverify.emulation.errors import CaptureError
from cgverify.emulation.rng import draw, stream_seed

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA


def begin_op(cuda: EmulatedCUDA, *, launches: bool = True) -> Capture | None:
    """Count a device op; returns the capture that is to record it, if any.

    Raises `CaptureError` if the op launches a kernel and the capture is invalid already.
    """
    cuda.stats["ops"] += 1
    capture = cuda.capturing
    if capture is not None and capture.is_invalid and launches:
        raise CaptureError(CaptureError.INVALIDATED)
    return capture


def run(cuda: EmulatedCUDA, call: Call) -> Any:
    """Run a device op now."""
    info = call.info
    if info.syncs or info.host_copy:
        cuda.wait_for_current_stream()
    if info.is_random:
        state = cuda.generator_of(call).state
        result = draw(call, stream_seed(state.seed, state.advance(in_capture=False)))
    else:
        result = call.run()
    if info.is_empty:
        return map_tensors(cuda.empty_like, result)
    return map_tensors(lambda tensor: move_in(cuda, tensor), result)


def move_in(cuda: EmulatedCUDA, tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a copy on the device if it is not there."""
    return tensor if cuda.is_on_device(tensor) else cuda.empty_like(tensor).copy_(tensor)


def decompose(cuda: EmulatedCUDA, call: Call) -> Any:
    """Run a composite op as the ops it is made of; NotImplemented if it is not.

    Composite ops come undone before they get here, but under torch.inference_mode.
    """
    mode = cuda.thread.dispatch_mode
    if mode is None:
        return NotImplemented
    with mode:
        return call.func.decompose(*call.args, **call.kwargs)
