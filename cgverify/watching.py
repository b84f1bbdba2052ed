"""Transforms around another transform: what it was given, what it made of it, and everything else passed on."""

from __future__ import annotations

from typing import Any

from thunder.core.trace import TraceCtx, from_trace
from thunder.core.transform_common import Transform

Pair = tuple[TraceCtx, TraceCtx]


class Around(Transform):
    """Hands everything on to another transform.

    Attributes:
        transform: the other transform.
    """

    def __init__(self, transform: Any) -> None:
        super().__init__()
        self.transform = transform

    def transform_module(self, model: Any) -> None:
        """Pass on."""
        self.transform.transform_module(model)

    def transform_state_dict_for_submodule(self, *args: Any, **kwargs: Any) -> Any:
        """Pass on."""
        return self.transform.transform_state_dict_for_submodule(*args, **kwargs)

    def reverse_transform_state_dict_for_submodule(self, *args: Any, **kwargs: Any) -> Any:
        """Pass on."""
        return self.transform.reverse_transform_state_dict_for_submodule(*args, **kwargs)

    def transform_traces_pre_prologue(
        self, prologue_trace: Any, computation_trace: Any, epilogue_trace: Any, **kwargs: Any
    ) -> Any:
        """Pass on."""
        return self.transform.transform_traces_pre_prologue(prologue_trace, computation_trace, epilogue_trace, **kwargs)

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """Pass on.

        Raises:
            TypeError: the other transform returns something that is no trace.
        """
        name = computation_trace.siginfo().name
        after = self.transform.transform_trace_post_optimization(computation_trace, **kwargs)
        if not isinstance(after, TraceCtx):
            made = type(self.transform).__name__
            raise TypeError(f"{made} returned {after!r} for the trace `{name}`, which is no trace: return a TraceCtx")
        return after


class WatchedTransform(Around):
    """Runs another transform and keeps each pair (before, after), which no later edit of a trace can touch.

    Args:
        transform: the transform to watch.
        runs: whether Thunder goes on with what the transform made; if not, execution traces stay as they were, so that
            a broken rewrite can be judged and is never executed.

    Attributes:
        recorded: what was made of the computation as recorded, before Thunder's own passes.
        rewritten: what was made of execution traces, forward and backward.
    """

    def __init__(self, transform: Any, *, runs: bool = True) -> None:
        super().__init__(transform)
        self.recorded: list[Pair] = []
        self.rewritten: list[Pair] = []
        self._runs = runs

    def transform_traces_pre_prologue(
        self, prologue_trace: Any, computation_trace: Any, epilogue_trace: Any, **kwargs: Any
    ) -> Any:
        """Pass on, and keep the computation."""
        before = copy_trace(computation_trace)
        made = super().transform_traces_pre_prologue(prologue_trace, computation_trace, epilogue_trace, **kwargs)
        if made[1] is not computation_trace:
            self.recorded.append((before, made[1]))
        return made

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """Pass on, and keep the trace.

        Raises:
            TypeError: the transform returns something that is no trace.
        """
        before = copy_trace(computation_trace)
        after = super().transform_trace_post_optimization(computation_trace, **kwargs)
        self.rewritten.append((before, after))
        return after if self._runs else before


def copy_trace(trace: TraceCtx) -> TraceCtx:
    """Copies a trace and its bound symbols, so that a transform that edits in place cannot touch the original."""
    copy = from_trace(trace)
    copy.bound_symbols.extend(bsym.from_bsym() for bsym in trace.bound_symbols)
    copy.set_provenance(trace.get_provenance())
    return copy
