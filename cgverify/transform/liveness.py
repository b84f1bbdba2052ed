"""Which values are needed after a point of an order of ops.

Facts: for each value the last position that uses it, END when it leaves the trace. Direction: one walk over the order.
Transfer rule: a later use overwrites an earlier one; RETURN's values end at END. Three oddities: a DEL is not a use;
RETURN also lists the flat arguments, which the printed line needs although callers never see them; values saved for
backward escape through RETURN like any other.

What it does not know: storage sharing. A view keeps its base's storage alive by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cgverify.ir import OpKind, TraceView

END = 1 << 62


@dataclass(frozen=True, slots=True)
class Liveness:
    """Last uses under one order.

    Attributes:
        last_use: name -> position of its last use, END for what RETURN hands out; absent for values never used.
    """

    last_use: dict[str, int]

    def is_live_after(self, name: str, position: int) -> bool:
        """Whether anything after `position` uses `name`."""
        return self.last_use.get(name, -1) > position


def compute_liveness(view: TraceView, order: Iterable[tuple[int, int]]) -> Liveness:
    """Last uses of every value, for `(position, op index)` pairs in execution order."""
    last: dict[str, int] = {}
    for position, index in order:
        op = view.ops[index]
        if op.kind in (OpKind.DEL, OpKind.PARAMETER):
            continue
        for name in op.reads:
            last[name] = position
    last.update(dict.fromkeys(view.returned, END))
    return Liveness(last)
