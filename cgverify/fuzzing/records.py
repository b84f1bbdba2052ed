"""What running a history shows: of each call all that the caller sees, then gradients, then what it still holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cgverify.fuzzing.snapshots import Snapshot

import torch


@dataclass(frozen=True, slots=True)
class Subject:
    """What is called.

    Attributes:
        function: takes all inputs.
        compile_also: compiles another function as this one was, with the same transform; None for a trace built
            directly, which also is not traced anew when inputs come to share memory.
    """

    function: Callable[..., Any]
    compile_also: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None

    def __call__(self, *inputs: torch.Tensor) -> Any:
        """Call the function."""
        return self.function(*inputs)


Side = Callable[[list[torch.Tensor]], tuple[Subject, list[torch.Tensor]]]
"""Given the first inputs, return what is called with all inputs, and the tensors that stand for them (a module has its
own).
"""


@dataclass(slots=True)
class CallRecord:
    """What one call showed.

    Attributes:
        results: its results, when it returned.
        inputs: its inputs, when it returned.
        relations: which of inputs and results (in this order) overlap in memory.
        generators: positions of the CPU and the CUDA generator.
        error: type and first line of the exception that ended it, else empty.
        exception: that exception.
    """

    results: list[Snapshot] = field(default_factory=list)
    inputs: list[Snapshot] = field(default_factory=list)
    relations: dict[tuple[int, int], int] = field(default_factory=dict)
    generators: tuple[bytes, bytes] = (b"", b"")
    error: str = ""
    exception: BaseException | None = None


@dataclass(slots=True)
class Record:
    """What a history showed.

    Attributes:
        calls: one record for each call made.
        gradients: for each backward, the number of its call and the gradients of that call's inputs.
        held: at the end of the history, the results still held: number of the call, position, content. A result of
            another function that the caller called has position -1; a gradient kept has -2 less that of its input.
    """

    calls: list[CallRecord] = field(default_factory=list)
    gradients: list[tuple[int, list[Snapshot]]] = field(default_factory=list)
    held: list[tuple[int, int, Snapshot]] = field(default_factory=list)


def first_line(error: BaseException) -> str:
    """Return an exception's type and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"
