"""Which values were overwritten after their names were bound: what reads them by that name then sees other contents.

A name stands for the value as it was when the name was bound (Thunder gives written memory a new name). Facts: for each
value, when it was bound and which values given by the caller its memory is. Two of those count as different memory
here, unlike in `state.py`: this finds what is certainly overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable

from cgverify.verifier.state import State
from cgverify.verifier.values import Step, Value, is_callers_memory


def find_overwritten(state: State, values: Iterable[tuple[str, Value]]) -> dict[str, Step]:
    """The first write to each value's memory since its name was bound; linear in the steps for each written value."""
    writes = [(i, step) for i, step in enumerate(state.steps) if step.writes and not state.facts(step.op).worst_case]
    if not writes:
        return {}
    origins = _compute_origins(state)
    found: dict[str, Step] = {}
    for name, value in values:
        own = origins.get(value.number, frozenset({value.number}))
        for index, step in writes:
            if index >= value.born and name not in found and _hits(state, step, value, own, origins):
                found[name] = step
    return found


def _hits(state: State, step: Step, value: Value, own: frozenset[int], origins: dict[int, frozenset[int]]) -> bool:
    shared = set(step.writes) & set(value.roots)
    if any(not is_callers_memory(root) for root in shared):
        return True
    written = set(state.facts(step.op).writes)
    return bool(shared) and any(
        own & origins.get(operand.number, frozenset({operand.number}))
        for operand in step.operands
        if operand.name in written
    )


def _compute_origins(state: State) -> dict[int, frozenset[int]]:
    """Number of a view -> numbers of the values that it is a view of; any other value stands for itself."""
    origins: dict[int, frozenset[int]] = {}
    for step in state.steps:
        views = state.facts(step.op).views
        if not views:
            continue
        given = {operand.name: operand.number for operand in step.operands}
        for position, proxy in enumerate(step.op.bsym.flat_proxy_outs):
            bases = [given[name] for name in views.get(proxy.name, ()) if name in given]
            if bases:
                result = state.numbers.of(("result", step.number, position))
                origins[result] = frozenset().union(*(origins.get(base, frozenset({base})) for base in bases))
    return origins
