"""The float64 anchor of tier T3: the same program with every floating-point dtype widened, and what it computes
where.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cgverify.fuzzing.comparison import Difference
from cgverify.fuzzing.execution import Record
from cgverify.fuzzing.pool import Dtype
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.snapshots import Snapshot
from cgverify.fuzzing.values import FLOATS

import msgspec


def widen(resolved: Resolved) -> Resolved:
    """Return the program with every floating-point dtype replaced by float64."""

    def wide(name: str) -> str:
        return "f64" if name in FLOATS else name

    def argument(value: Any) -> Any:
        return Dtype(wide(value.name)) if isinstance(value, Dtype) else value

    statements = tuple(
        replace(s, args=tuple(map(argument, s.args)), kwargs={key: argument(value) for key, value in s.kwargs.items()})
        for s in resolved.statements
    )
    inputs = tuple(msgspec.structs.replace(entry, dtype=wide(entry.dtype)) for entry in resolved.inputs)
    return replace(resolved, inputs=inputs, statements=statements)


def look_up(record: Record, difference: Difference) -> Snapshot | None:
    """Return the content in `record` at the place where two other records differ."""
    name = difference.invariant.name
    if name == "wrong-gradient":
        return next((grads[difference.place] for call, grads in record.gradients if call == difference.call), None)
    if name == "held-result-changed":
        return next((s for call, place, s in record.held if (call, place) == (difference.call, difference.place)), None)
    if difference.place < 0 or difference.call >= len(record.calls):
        return None
    call = record.calls[difference.call]
    values = call.inputs if name == "lost-write" else call.results
    return values[difference.place] if difference.place < len(values) else None
