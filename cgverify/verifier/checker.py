"""Proves a rewrite or names its faults: builds the subject and runs every rule over it.

The trace after is executed symbolically with its regions inlined, and so is the trace before, on one numbering
(`state.py`); where they part is found once (`divergence.py`) and told by the rules of families 4 and 5. Families 1 to 3
look at the trace after, its regions and the contract. Rules run by code and report all they find. A rewrite is proved
if no diagnostic is an error.
"""

from __future__ import annotations

from cgverify.diagnostics import Report, Severity
from cgverify.ir import view_trace
from cgverify.verifier import registry
from cgverify.verifier.contracts import Contract
from cgverify.verifier.pairing import check_pairing
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
    found = (*_check(first).diagnostics, *_check(second).diagnostics, *check_pairing(first, second))
    return Report(f"{first.after.name} and {second.after.name}", found)


def _check(subject: Subject) -> Report:
    found = [diagnostic for rule in registry.rules() for diagnostic in rule.run(subject)]
    found.sort(key=lambda diagnostic: list(Severity).index(diagnostic.severity))
    return Report(subject.after.name, tuple(found))
