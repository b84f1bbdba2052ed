"""What a capture under way records: launches, blocks that change hands, and which streams take part."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from cgverify.emulation.blocks import Block, Pool
from cgverify.emulation.calls import Call, flat_results
from cgverify.emulation.errors import CaptureError
from cgverify.emulation.rng import GeneratorState, draw, stream_seed

import torch

if TYPE_CHECKING:
    from cgverify.emulation.graph import CUDAGraph


class Launch:
    """One recorded kernel: the call on raw views, result addresses, random numbers.

    `outputs` has a raw view per result that is to be stored, and None for results written in place. `random` is the
    generator state and the offset inside the graph.
    """

    __slots__ = ("_args", "_func", "_kwargs", "call", "outputs", "random")

    def __init__(
        self, call: Call, outputs: list[torch.Tensor | None], random: tuple[GeneratorState, int] | None = None
    ) -> None:
        self.call, self.outputs, self.random = call, outputs, random
        self._func, self._args, self._kwargs = call.func, call.args, call.kwargs

    def run(self, start: dict[GeneratorState, tuple[int, int]]) -> None:
        """Run the kernel on the recorded addresses; `start` has the seed and offset of each state at the replay."""
        if self.random is None:
            result = self._func(*self._args, **self._kwargs)
        else:
            state, offset = self.random
            seed, first = start[state]
            result = draw(self.call, stream_seed(seed, first + offset))
        outputs = self.outputs
        if not outputs:
            return
        if len(outputs) == 1:
            target = outputs[0]
            if target is not None:
                target.copy_(result if isinstance(result, torch.Tensor) else result[0])
            return
        for target, value in zip(outputs, flat_results(result), strict=True):
            if target is not None:
                target.copy_(value)

    def __str__(self) -> str:
        arguments = [*map(_show, self._args), *(f"{key}={_show(value)}" for key, value in self._kwargs.items())]
        results = [_show(output) for output in self.outputs if output is not None]
        return f"{self._func}({', '.join(arguments)})" + (f" -> {', '.join(results)}" if results else "")


def _show(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.data_ptr():#x}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_show, value))}]"
    return repr(value)


Handover = tuple[int, int]  # (offset, size) of a block that changed hands at this point: its contents mean nothing
Clock = dict[int, int]  # stream -> how many of its launches come before


@dataclass(eq=False, slots=True)
class Capture:
    """A capture under way: `graph` records what `stream_id` and the streams that join it are given."""

    graph: CUDAGraph
    pool: Pool
    stream_id: int
    mode: str  # the capture error mode
    clocks: dict[int, Clock]  # of each stream that takes part
    thread: int = field(default_factory=threading.get_ident)
    program: list[Launch | Handover] = field(default_factory=list)
    external: dict[Block, tuple[int, str]] = field(default_factory=dict)  # read or written: its serial, first op
    is_invalid: bool = False

    def forbid(self, text: str = CaptureError.UNSUPPORTED) -> NoReturn:
        """Invalidate the capture and raise; the text counts for the first error only."""
        was_invalid, self.is_invalid = self.is_invalid, True
        raise CaptureError(CaptureError.INVALIDATED if was_invalid else text)

    def forbids_waiting(self, stream_id: int) -> bool:
        """Whether a call that waits for the stream, or asks if it is done, is forbidden to the calling thread."""
        if stream_id in self.clocks or self.mode == "global":
            return True
        return self.mode == "thread_local" and self.thread == threading.get_ident()

    def add(self, launch: Launch, stream_id: int) -> None:
        """Record a launch on a stream that takes part."""
        self.program.append(launch)
        clock = self.clocks[stream_id]
        clock[stream_id] = clock.get(stream_id, 0) + 1

    def join(self, stream_id: int, event: Clock) -> None:
        """Let the stream wait for an event of this capture; a stream that did not take part does so from now on."""
        clock = self.clocks.setdefault(stream_id, {})
        for other, launches in event.items():
            clock[other] = max(clock.get(other, 0), launches)

    def is_joined(self) -> bool:
        """Whether the first stream waits for all that was launched on the others."""
        joined = self.clocks[self.stream_id]
        return all(joined.get(stream, 0) >= clock.get(stream, 0) for stream, clock in self.clocks.items())
