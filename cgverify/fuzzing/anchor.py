"""The float64 anchor of tier T3: the same program with every floating-point dtype widened, and what it computes
where.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
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
    """Return the content in `record` at the place where two other records differ.

    A call may have several backwards, and several tensors held for one place: then the one nearest to what was
    expected.
    """
    name, call, place = difference.invariant.name, difference.call, difference.place
    if name == "wrong-gradient":
        return _nearest([grads[place] for number, grads in record.gradients if number == call], difference.expected)
    if name == "held-result-changed":
        return _nearest([held for *key, held in record.held if key == [call, place]], difference.expected)
    if place < 0 or call >= len(record.calls):
        return None
    found = record.calls[call]
    values = found.inputs if name == "lost-write" else found.results
    return values[place] if place < len(values) else None


def _nearest(found: list[Snapshot], expected: Snapshot | None) -> Snapshot | None:
    def distance(snapshot: Snapshot) -> float:
        if expected is None or snapshot.kind != "tensor" or snapshot.shape != expected.shape:
            return inf
        gaps = (snapshot.tensor().double() - expected.tensor().double()).abs()
        return float(gaps.nan_to_num(0.0).sum())

    return min(found, key=distance, default=None)
