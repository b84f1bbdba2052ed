"""Values saved for the backward trace: they hold there what they held when they were saved."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.diagnostics import Note, Severity
from cgverify.ir import TraceView
from cgverify.verifier.pairing import saved_groups
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.staleness import find_overwritten
from cgverify.verifier.state import State
from cgverify.verifier.subject import Subject
from cgverify.verifier.values import Value


@rule("CG307", "saved-value-overwritten")
def saved_value_overwritten(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No value that a forward trace saves for its backward trace is written between the op that made it and RETURN.

    Why it is wrong
        The backward trace reads the memory later: its gradients are those of other values, without an error. Eager
        PyTorch refuses such a backward ("modified by an inplace operation").

    Example
        t0 = torch.mul(x, y)         # its backward needs y
        t2 = copy_(t1, y)
        return {...}, ((y,), ())

    Instead
        Save a copy, or move the write behind the backward.

    Not covered
        Two parameters that share memory. Where the trace before does the same, it is a warning: the fault is older.
    """
    before, after = subject.executions
    older = find_overwritten(before, _saved(subject.before, before))
    op = subject.after.return_op
    for name, step in find_overwritten(after, _saved(subject.after, after)).items():
        yield Finding(
            f"`{name}`, saved for the backward trace, is overwritten before that trace reads it",
            subject.whole() if op is None else subject.at(op),
            (Note("it is overwritten here", subject.step(step)),),
            "save a copy for the backward trace, or write later",
            Severity.WARNING if name in older else None,
        )


def _saved(view: TraceView, state: State) -> list[tuple[str, Value]]:
    """What a forward trace saves, with what each name holds at the end."""
    names = dict.fromkeys(name for group in saved_groups(view) for name in group)
    return [(name, state.values[name]) for name in names if name in state.values]
