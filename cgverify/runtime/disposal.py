"""Graphs give their memory back now or, while somebody captures, later. The caller holds the runtime's lock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

_waiting: list[tuple[torch.cuda.CUDAGraph, torch.cuda.Stream, list[torch.Tensor]]] = []
_put_off: list[bool] = []


def dispose(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, stores: list[torch.Tensor]) -> None:
    """Resets the graph and lets go of the stores, once that is allowed and the stream where it last ran has drained."""
    _waiting.append((graph, stream, stores))
    dispose_of_waiting()


def dispose_of_waiting() -> None:
    """Resets graphs whose disposal was put off; neither that nor waiting for their streams is allowed in a capture."""
    if _put_off or (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
        return
    while _waiting:
        graph, stream, stores = _waiting.pop()
        stream.synchronize()
        graph.reset()
        stores.clear()


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """A block in which no graph is reset: a capture may go on in the pool of one that goes."""
    _put_off.append(True)
    try:
        yield
    finally:
        _put_off.pop()
