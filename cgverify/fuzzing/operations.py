"""The vocabulary: one declarative entry per operation, from plain to exotic within each family.

An entry is made by a helper for its kind (`call`, `unary`, `binary`, `reduction`, ...) in
:mod:`cgverify.fuzzing.building`; the entries stand in :mod:`cgverify.fuzzing.vocabulary`. A bound rule takes the bounds
of the operands and returns that of the result (see TensorType.bound); no rule means: not exact any more.
"""

from __future__ import annotations

from cgverify.fuzzing.signatures import Operation
from cgverify.fuzzing.vocabulary import arithmetic, effects, elementwise, movement

_TABLE = (
    *elementwise.TABLE,
    *arithmetic.TABLE,
    *movement.TABLE,
    *effects.FACTORIES,
    *effects.NUMBERS,
    *effects.WRITES,
    *effects.RANDOM,
    *movement.TRANSFERS,
)

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _TABLE}
"""Every operation, by name, from plain to exotic."""

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(operation.family for operation in _TABLE))
"""The families that a strategy may ban."""
