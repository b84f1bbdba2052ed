"""Where a call is made: on which stream, in which thread, inside a capture of the caller's own, without gradients,
in autocast.

A script that reproduces a failure contains :func:`on_stream`, :func:`in_thread`, :func:`in_capture` and
:func:`in_autocast` as they stand here, so they need torch and the emulation only.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

from cgverify.emulation import EmulatedCUDA

import torch


def on_stream(stream: Any, function: Any, inputs: Any) -> Any:
    """Call on a stream that waits for the current one, and have that wait for it."""
    before = torch.cuda.current_stream()
    stream.wait_stream(before)
    with torch.cuda.stream(stream):
        results = function(*inputs)
    before.wait_stream(stream)
    return results


def in_thread(function: Any, inputs: Any) -> Any:
    """Call in another thread, and wait for it."""
    made: list[Any] = []
    emulation = EmulatedCUDA.current()
    graded = torch.is_grad_enabled()

    def call() -> None:
        with emulation.in_thread() if emulation else nullcontext(), torch.set_grad_enabled(graded):
            try:
                made.append((function(*inputs), None))
            except Exception as error:  # handed to the thread that waits
                made.append((None, error))

    thread = threading.Thread(target=call)
    torch.cuda.synchronize()
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    results, error = made[0]
    if error is not None:
        raise error
    return results


def in_autocast(dtype: Any, function: Any) -> Any:
    """Return a function that calls with autocast on for the device, in whichever thread it is called."""

    def call(*inputs: Any) -> Any:
        with torch.autocast("cuda", dtype=dtype):
            return function(*inputs)

    return call


def in_capture(graph: Any, function: Any, inputs: Any) -> Any:
    """Call inside a capture of the caller's own, then launch what was captured."""
    with torch.cuda.graph(graph):
        results = function(*inputs)
    graph.replay()
    torch.cuda.synchronize()
    return results
