"""What a capture has to itself: the stream it records, and the workspaces of cuBLAS.

torch hands out its 32 streams in a ring, so whoever makes a stream may get one that somebody else uses. Work that
another thread enqueues on a stream in capture becomes part of the graph instead of running; so captures have a stream
that the ring does not know. cuBLAS writes to a workspace per handle and stream, and a graph goes on writing to the one
that its capture was given: with that of the ring's stream, un-graphed products on this stream and replays would
overwrite each other's partial sums. So a capture begins without workspaces and leaves none behind: the ones it takes
lie in its pool, whose graphs never run at the same time.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

import torch

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: not ordered with the legacy default stream

_handles: dict[torch.device, int] = {}


def capture_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream to capture on, the same one for all captures of a device. Nothing ever runs on it.

    Where no driver gives one, under the emulation say, a stream of torch's ring.
    """
    with torch.cuda.device(device):
        torch.cuda.default_stream().query()  # the driver makes a stream only in a thread that has used the device
        handle = _handles.get(device) or _new_stream()
        if not handle:
            return torch.cuda.Stream()
        _handles[device] = handle
        return torch.cuda.ExternalStream(handle, device=device)


@contextlib.contextmanager
def own_workspaces() -> Iterator[None]:
    """A block whose products of matrices take new workspaces, and give them back to the allocator at its end.

    Others' workspaces go back as well, and are taken again at the next product, from the same memory most of the time.
    """
    _give_workspaces_back()
    try:
        yield
    finally:
        _give_workspaces_back()


def _new_stream() -> int:
    """The handle of a new stream on the current device, 0 if there is no driver or it refuses."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    handle = ctypes.c_void_p()
    refused = driver.cuStreamCreate(ctypes.byref(handle), _NON_BLOCKING)
    return 0 if refused else handle.value or 0


def _give_workspaces_back() -> None:
    torch._C._cuda_clearCublasWorkspaces()
