"""What all probes share: capturing a function, and errors written as text."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from cgverify.emulation import CaptureError, EmulatedCUDA, HostCopyError

import torch

DEVICE = "cuda"
TEXT_LIMIT = 110  # characters of an error's first line that count as the answer


def capture(
    body: Callable[[], Any], pool: Any = None, stream: torch.cuda.Stream | None = None
) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Capture what `body` does; returns the graph and what `body` returned."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=stream):
        result = body()
    return graph, result


def taking_part() -> AbstractContextManager[Any]:
    """Return the context in which another thread uses the device: nothing on a GPU."""
    emulated = EmulatedCUDA.current()
    return nullcontext() if emulated is None else emulated.in_thread()


def filled(count: int = 4, value: float = 0.0) -> torch.Tensor:
    """Return a float32 vector on the device."""
    return torch.full((count,), value, device=DEVICE)


def torch_class(error: BaseException) -> type[BaseException]:
    """Return the error's class; for the emulation's own classes, the torch class that they stand for."""
    if isinstance(error, CaptureError):
        return torch.AcceleratorError
    return RuntimeError if isinstance(error, HostCopyError) else type(error)


def error_line(error: BaseException, limit: int = TEXT_LIMIT) -> str:
    """Return "Class: first line", with the line cut at `limit` characters."""
    return f"{torch_class(error).__name__}: {str(error).splitlines()[0][:limit] if str(error) else ''}"
