"""Streams to capture on, which nobody else can get.

torch hands out its 32 streams in a ring, so whoever makes a stream may get one that somebody else uses. Captures must
not be made on those. Work that another thread enqueues on a stream in capture becomes part of the graph instead of
running. And cuBLAS writes to a workspace per thread and stream: a graph goes on writing to that of its capture, so
un-graphed products on that stream and replays would overwrite each other's partial sums.

A pool has streams of its own as long as it has graphs. The workspaces of its captures lie in its memory, and its graphs
never run at the same time. torch goes on holding the workspace of a stream that came back, in memory of the pool that
is gone (newer versions let go of it with a graph of the stream), and can only be told to drop all there are, although
graphs that others captured may still write to theirs. So streams that came back rest, and only where pools come and go,
or captures fail, in numbers is one used again, without workspaces.

Within a pool a workspace may be dropped at any time: then it is scratch memory, and older graphs go on writing to it.
Leases reckon with that.
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict, deque

import torch

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: not ordered with the legacy default stream

RESTING = 8
"""How many streams rest before the first of them is used again. Each may hold a workspace, 32 MiB on Hopper."""

_resting: defaultdict[torch.device, deque[int]] = defaultdict(deque)


class CaptureStream:
    """A stream to capture on, from the driver, or the one that came back first if enough rest.

    Where there is no driver, under the emulation say, it is a stream of torch's ring.

    Args:
        device: where to capture.

    Attributes:
        stream: the stream. Nothing ever runs on it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._clean_in: set[int] = set()
        self._is_new = len(_resting[device]) <= RESTING
        with torch.cuda.device(device):
            self._handle = _new_stream() if self._is_new else _resting[device].popleft()
            self.stream = torch.cuda.ExternalStream(self._handle, device) if self._handle else torch.cuda.Stream()

    def prepare(self) -> None:
        """To be called before a capture: drops workspaces that this thread may have from an earlier owner."""
        thread = threading.get_ident()
        if not self._is_new and thread not in self._clean_in:
            self._clean_in.add(thread)
            torch._C._cuda_clearCublasWorkspaces()

    def spoil(self) -> None:
        """To be called when captures go over to other memory: what cuBLAS remembers of the stream is of no more use."""
        self._is_new = False
        self._clean_in.clear()

    def give_back(self) -> None:
        """To be called when the last graph captured on it is gone."""
        if self._handle:
            _resting[self._device].append(self._handle)


def _new_stream() -> int:
    """The handle of a new stream on the current device, 0 if there is no driver or it refuses."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    torch.cuda.default_stream().query()  # the driver makes a stream only in a thread that has used the device
    handle = ctypes.c_void_p()
    refused = driver.cuStreamCreate(ctypes.byref(handle), _NON_BLOCKING)
    return 0 if refused else handle.value or 0
