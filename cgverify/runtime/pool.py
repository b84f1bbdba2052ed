"""Capturing a body on a side stream, and leaving stream, generator and allocator as they were if that fails.

`torch.cuda.graph` is not used: when a capture fails, its `__exit__` raises before it restores the caller's stream.
One process-wide lock serialises captures, replays and graph destruction: torch registers every graph with the
generator of its device, and that registration is not safe against a capture in another thread.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

LOCK = threading.RLock()

_streams: dict[torch.device, torch.cuda.Stream] = {}
_waiting: list[tuple[torch.cuda.CUDAGraph, torch.cuda.Stream]] = []


def capture(
    body: Callable[..., Sequence[torch.Tensor]], buffers: Sequence[torch.Tensor], device: torch.device
) -> tuple[torch.cuda.CUDAGraph, Sequence[torch.Tensor]]:
    """Captures `body(*buffers)` in memory of its own; nothing is executed.

    Returns:
        The graph and the body's results, which lie in the graph's memory or in `buffers`.

    Raises:
        Exception: whatever the capture raised. Stream, generator and allocator are usable again by then.
    """
    _dispose_of_waiting()
    graph = torch.cuda.CUDAGraph()
    caller = torch.cuda.current_stream(device)
    stream = _capture_stream(device)
    stream.wait_stream(caller)
    try:
        with torch.cuda.stream(stream), _garbage_collection_paused():
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                results = body(*buffers)
            except BaseException:
                # the error that matters is the body's; ending an invalidated capture raises a second one
                with contextlib.suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()
    except BaseException:
        release_generator(device)
        raise
    caller.wait_stream(stream)
    return graph, results


def dispose(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream) -> None:
    """Gives a graph's memory back once `stream`, where it last ran, has drained; later while somebody captures."""
    _waiting.append((graph, stream))
    _dispose_of_waiting()


def _dispose_of_waiting() -> None:
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return
    while _waiting:
        graph, stream = _waiting.pop()
        stream.synchronize()
        graph.reset()


def release_generator(device: torch.device) -> None:
    """Takes the device's default generator out of the capture mode in which a failed capture leaves it.

    A capture that succeeds resets the mode and moves neither seed nor offset. Should even that fail, the generator gets
    a clone of its state, which is not in capture mode; graphs captured earlier then keep drawing from the old state.
    """
    stream = _capture_stream(device)
    scratch = torch.zeros(1, device=device)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.stream(stream), _garbage_collection_paused():
            graph.capture_begin(capture_error_mode="thread_local")
            scratch.add_(1)
            graph.capture_end()
    except RuntimeError:
        generator = torch.cuda.default_generators[device.index or 0]
        generator.graphsafe_set_state(generator.clone_state())


def _capture_stream(device: torch.device) -> Any:
    # Stream objects of an emulated device die with it, so the cache asks whether the stream is of today's class
    stream = _streams.get(device)
    if stream is None or not isinstance(stream, torch.cuda.Stream):
        with torch.cuda.device(device):
            stream = _streams[device] = torch.cuda.Stream()
    return stream


@contextlib.contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    # a collection may destroy somebody's graph or event, which a stream in capture does not survive
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
