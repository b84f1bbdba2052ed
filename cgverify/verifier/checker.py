"""Proves a rewrite or names its faults: builds the subject and runs every rule over it.

The trace after is executed symbolically with its regions inlined, and so is the trace before, on one numbering
(`state.py`); where they part is found once (`divergence.py`) and told by the rules of families 4 and 5. Families 1 to 3
look at the trace after, its regions and the contract. Rules run by code and report all they find. A rewrite is proved
if no diagnostic is an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.diagnostics import Diagnostic, Note, Report, Severity
from cgverify.ir import Op, OpKind, TraceView, flat_names, view_trace
from cgverify.verifier import registry
from cgverify.verifier.contracts import Contract
from cgverify.verifier.semantics import TraceCtx
from cgverify.verifier.subject import Subject

Pair = tuple[TraceCtx, TraceCtx]


def verify(before: TraceCtx, after: TraceCtx, *, contract: Contract | None = None) -> Report:
    """Checks that `after` does what `before` does, run by the runtime that the contract describes.

    Args:
        before: the trace given to a transform: a final execution trace, or one of the post-optimisation stage, forward
            or backward.
        after: the trace it emitted.
        contract: what the runtime promises; None takes it from the regions (see `contracts.py`).

    Returns:
        A report whose `ok` says whether the rewrite is proved.

    Raises:
        TypeError: one of the two is not a Thunder trace.
    """
    return _check(Subject(view_trace(before), view_trace(after), contract))


def verify_pair(*, forward: Pair, backward: Pair, contract: Contract | None = None) -> Report:
    """Checks a forward and its backward trace, each a pair (before, after), and that they still fit together.

    Raises:
        TypeError: one of the four is not a Thunder trace.
    """
    first = Subject(view_trace(forward[0]), view_trace(forward[1]), contract)
    second = Subject(view_trace(backward[0]), view_trace(backward[1]), contract)
    found = (*_check(first).diagnostics, *_check(second).diagnostics, *_fit(first, second))
    return Report(f"{first.after.name} and {second.after.name}", found)


def _check(subject: Subject) -> Report:
    found = [diagnostic for rule in registry.rules() for diagnostic in rule.run(subject)]
    found.sort(key=lambda diagnostic: list(Severity).index(diagnostic.severity))
    return Report(subject.after.name, tuple(found))


def _fit(forward: Subject, backward: Subject) -> Iterator[Diagnostic]:
    """The saved values that the backward trace takes apart are as many as the forward trace hands out."""
    rule = registry.find("CG108")
    for saved, op in zip(_saved(forward.after), _taken(backward.after), strict=False):
        if op is None or len(saved) == len(op.bsym.flat_outs):
            continue
        notes = (Note(f"saved: {', '.join(saved) or 'none'}"),)
        message = (
            f"`{forward.after.name}` saves {len(saved)} values where `{backward.after.name}` takes "
            f"{len(op.bsym.flat_outs)} apart"
        )
        help = "rewrite forward and backward from the same pair of traces"
        yield Diagnostic(rule.code, rule.name, Severity.ERROR, message, backward.at(op), notes, help)


def _saved(forward: TraceView) -> list[tuple[str, ...]]:
    """Names in each group of saved values: `return {...}, (tensors, others)`; empty if the trace saves nothing."""
    op = forward.return_op
    if op is None or len(op.bsym.args) != 2 or not isinstance(op.bsym.args[1], (tuple, list)):
        return []
    return [flat_names(group) for group in op.bsym.args[1]]


def _taken(backward: TraceView) -> list[Op | None]:
    """For each group of saved values, the op that takes it apart; Thunder drops it where nothing is used."""
    unpacks = {op.reads[0]: op for op in backward.ops if op.kind is OpKind.UNPACK and op.reads}
    first = unpacks.get(backward.parameters[0]) if backward.parameters else None
    return [] if first is None else [unpacks.get(name) for name in first.outputs]
