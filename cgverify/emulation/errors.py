"""The errors of the emulated device, with the texts that torch 2.11 gives on a GPU."""

from __future__ import annotations

import torch


class CaptureError(torch.AcceleratorError):
    """A CUDA call that stream capture forbids; it invalidates the capture.

    The first one of a capture says `UNSUPPORTED` (cudaErrorStreamCaptureUnsupported, 900), every later call and
    `capture_end` say `INVALIDATED` (cudaErrorStreamCaptureInvalidated, 901). The others are for misused streams, events
    and ends.
    """

    UNSUPPORTED = "CUDA error: operation not permitted when stream is capturing"
    INVALIDATED = "CUDA error: operation failed due to a previous error during capture"
    UNJOINED = "CUDA error: capturing stream has unjoined work"
    ISOLATION = "CUDA error: dependency created on uncaptured work in another stream"
    CAPTURED_EVENT = "CUDA error: operation not permitted on an event last recorded in a capturing stream"
    ENDED_EVENT = "CUDA error: invalid argument"
    ILLEGAL_STATE = "CUDA error: the operation cannot be performed in the present state"


class HostCopyError(RuntimeError):
    """A copy from or to pageable host memory during a capture.

    torch refuses it before CUDA sees it, so the capture stays valid and later ops are captured.
    """

    TEXT = (
        "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please "
        "use tensor.pin_memory() or allocate the tensor with pin_memory=True."
    )


class UseAfterFree(RuntimeError):
    """`strict` only: a replay would touch memory whose owner was freed after the capture."""


def not_capturing_message(what: str) -> str:
    """Return the text of ATen's `assertNotCapturing` for the sentence `what`."""
    return (
        f"{what} during CUDA graph capture. If you need this call to be captured, please file an issue. "
        "Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive"
    )
