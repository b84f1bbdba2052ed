"""Proves a rewrite or names its faults: builds the subject and runs every rule over it.

The trace after is executed symbolically with its regions inlined, and so is the trace before, on one numbering
(`state.py`); where they part is found once (`divergence.py`) and told by the rules of families 4 and 5. Families 1 to 3
look at the trace after, its regions and the contract. Rules run by code and report all they find. A rewrite is proved
if no diagnostic is an error.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from cgverify.diagnostics import Report, Severity
from cgverify.ir import TraceView, is_backward, view_trace
from cgverify.verifier import registry
from cgverify.verifier.contracts import Contract
from cgverify.verifier.pairing import check_pairing, check_static
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
    with _collection_paused():
        return _check_one(view_trace(before), view_trace(after), contract)


def verify_pair(*, forward: Pair, backward: Pair, contract: Contract | None = None) -> Report:
    """Checks a forward and its backward trace, each a pair (before, after), and that they still fit together.

    Raises:
        TypeError: one of the four is not a Thunder trace.
    """
    first = verify(*forward, contract=contract)
    second = verify_backward(*backward, forward=forward, contract=contract)
    return Report(f"{first.subject} and {second.subject}", (*first.diagnostics, *second.diagnostics))


def verify_backward(before: TraceCtx, after: TraceCtx, *, forward: Pair, contract: Contract | None = None) -> Report:
    """As `verify`, for a backward trace, and checks that it fits its forward trace, which was verified before.

    Raises:
        TypeError: one of the four is not a Thunder trace.
    """
    with _collection_paused():
        return _check_second(before, after, forward, contract)


def verify_each_trace(pairs: Iterable[Pair], *, contract: Contract | None = None) -> Iterator[Report]:
    """One report for each pair of one compilation, in order; a backward trace is checked with its forward trace."""
    forward: Pair | None = None
    for pair in pairs:
        second = is_backward(pair[0])
        if forward is not None and second:
            yield verify_backward(*pair, forward=forward, contract=contract)
        else:
            yield verify(*pair, contract=contract)
        forward = None if second else pair


@contextmanager
def _collection_paused() -> Iterator[None]:
    """No cyclic garbage collection: a check allocates much and drops it at once, and each full pass walks everything.

    With collection, 10,000 ops take 19 times the time of 1,000; without, 11 times.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check_one(before: TraceView, after: TraceView, contract: Contract | None) -> Report:
    subject = Subject(before, after, contract)
    report = _check(subject)
    subject.forget()
    return report


def _check_second(before: TraceCtx, after: TraceCtx, forward: Pair, contract: Contract | None) -> Report:
    subject = Subject(view_trace(before), view_trace(after), contract)
    found = _check(subject)
    emitted = view_trace(forward[1])
    misfits = check_pairing(emitted, subject)
    # Which regions the forward trace has matters only where addresses are not compared.
    if not subject.contract.guards_addresses:
        first = Subject(view_trace(forward[0]), emitted, contract)
        misfits = (*misfits, *check_static(first, subject))
    subject.forget()
    return Report(found.subject, (*found.diagnostics, *misfits))


def _check(subject: Subject) -> Report:
    found = [diagnostic for rule in registry.rules() for diagnostic in rule.run(subject)]
    found.sort(key=lambda diagnostic: list(Severity).index(diagnostic.severity))
    return Report(subject.after.name, tuple(found))
