"""Streams and events as labels: work runs at once, in program order, whatever stream it is put on.

A stream matters to the allocator, which reuses a block only on the stream it was made on, and to captures: work is
captured on the stream that began the capture and on streams that joined it by waiting on one of its events.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cgverify.emulation.current import active, in_force
from cgverify.emulation.errors import CaptureError

import torch

if TYPE_CHECKING:
    from cgverify.emulation.capture import Capture, Clock

CUDA_DEVICE_TYPE = 1  # c10::DeviceType::CUDA
STREAMS = 32  # torch hands out this many streams in turn
_HANDLE = 0x5EED0000  # `cuda_stream` of stream n is this plus n


class Stream(torch.Stream):
    """torch.cuda.Stream."""

    _outer: list[int]  # the streams that were current when its contexts were entered

    def __new__(cls, device: Any = None, priority: int = 0, *, stream_id: int | None = None, **_: Any) -> Stream:
        """Take the stream that torch would hand out next, or the one of that id."""
        chosen = active().next_stream_id() if stream_id is None else stream_id
        self: Stream = super().__new__(cls, stream_id=chosen, device_index=0, device_type=CUDA_DEVICE_TYPE)
        self._outer = []
        return self

    @property
    def priority(self) -> int:
        """Always the default: a label has no priority."""
        return 0

    @classmethod
    def priority_range(cls) -> tuple[int, int]:
        """Return the lowest and the highest priority."""
        return (0, -5)

    @property
    def cuda_stream(self) -> int:
        """The stream's handle; 0 is the default stream."""
        return self.stream_id and _HANDLE + self.stream_id

    def synchronize(self) -> None:
        """Wait for the stream; a capture may forbid that."""
        cuda = in_force()
        if cuda is not None:  # nothing is pending on a device that is gone
            cuda.wait_for_stream(self.stream_id)

    def query(self) -> bool:
        """Whether all work is done; a capture may forbid asking."""
        active().wait_for_stream(self.stream_id)
        return True

    def is_capturing(self) -> bool:
        """Whether a capture records this stream's work."""
        return active().capture_on(self.stream_id) is not None

    def wait_event(self, event: Any) -> None:
        """Order later work of this stream after the event."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Order later work of this stream after all work of the other."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        """Record an event, a new one by default, and return it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"

    def __enter__(self) -> Stream:
        thread = active().thread
        self._outer.append(thread.stream_id)
        thread.stream_id = self.stream_id
        return self

    def __exit__(self, *exception: object) -> None:
        active().thread.stream_id = self._outer.pop()


class ExternalStream(Stream):
    """torch.cuda.ExternalStream: a stream that another library made."""

    def __new__(cls, stream_ptr: int, device: Any = None, **_: Any) -> ExternalStream:
        """Take the stream of that address."""
        self: ExternalStream = super().__new__(cls, device, stream_id=stream_ptr)  # type: ignore[assignment]
        return self


class Event:
    """torch.cuda.Event; its times are those of the host clock at `record`."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any
    ) -> None:
        self.enable_timing = enable_timing
        self.device = torch.device("cuda:0")
        self._stream_id: int | None = None
        self._capture: Capture | None = None
        self._clock: Clock = {}
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        """Mark this point of the stream, the current one by default."""
        cuda = active()
        self._stream_id = cuda.thread.stream_id if stream is None else stream.stream_id
        self._capture = cuda.capture_on(self._stream_id)
        self._clock = {} if self._capture is None else dict(self._capture.clocks[self._stream_id])
        self._time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Order later work of the stream, the current one by default, after this event."""
        if self._stream_id is None:  # never recorded: nothing to wait for
            return
        cuda = active()
        stream_id = cuda.thread.stream_id if stream is None else stream.stream_id
        capture = cuda.capture_on(stream_id)
        if self._capture is not None:
            if self._capture is not cuda.capture:
                raise CaptureError(CaptureError.ENDED_EVENT)
            self._capture.join(stream_id, self._clock)
        elif capture is not None:
            capture.forbid(CaptureError.ISOLATION)

    def query(self) -> bool:
        """Whether the event is done: always, where asking is allowed."""
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Wait for the event; a capture, and an event recorded in one, forbid that."""
        cuda = in_force()
        if self._stream_id is None or cuda is None:  # nothing is pending on a device that is gone
            return
        if self._capture is None:
            cuda.wait_for_stream(cuda.thread.stream_id)
        elif self._capture is cuda.capture:
            self._capture.forbid(CaptureError.CAPTURED_EVENT)
        else:
            raise CaptureError(CaptureError.ENDED_EVENT)

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds between two events recorded with `enable_timing=True`."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._stream_id is None or end_event._stream_id is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(end_event._time - self._time) * 1e3
