"""How many bytes the large values of a region take at once; small ones the caching allocator serves from elsewhere.

Facts: one number per region, the peak over its ops. Direction: one walk over the ops, after one that finds last uses.
Transfer rule: a class of values that may share memory takes the bytes of its largest from the first definition on, and
until after its last use, or to the end if one of it leaves the region; classes of inputs are the caller's.

What it does not know: workspaces of kernels, values inside fusions, copies made by an op that may return a view. So it
is a hint and no bound.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

from cgverify.ir import Op, TraceView, is_tensor
from cgverify.transform.aliases import AliasSets

SMALL = 1 << 20
"""Most bytes of a value that is small to the caching allocator: large and small ones never share a segment."""

ROUND = 512
"""What the caching allocator rounds each request to."""


def compute_footprint(view: TraceView, ops: Sequence[Op], sets: AliasSets, outputs: Collection[str]) -> int:
    """The peak in bytes; 0 if a shape is not known.

    Args:
        view: the trace.
        ops: those of the region, in order.
        sets: which values may share memory, by these ops alone.
        outputs: the values that leave the region.
    """
    defined = {name for op in ops for name in op.defines}
    theirs = {sets.representative(name) for op in ops for name in op.reads if name not in defined}
    sizes: dict[str, int] = {}
    last: dict[str, int] = {}
    for position, op in enumerate(ops):
        for name in (*op.reads, *op.defines):
            last[sets.representative(name)] = position
        for name in op.defines:
            size = _bytes(view, name)
            if size is None:
                return 0
            sizes[sets.representative(name)] = max(size, sizes.get(sets.representative(name), 0))
    last.update(dict.fromkeys(map(sets.representative, outputs), len(ops)))
    dying: dict[int, set[str]] = {}
    for value, position in last.items():
        dying.setdefault(position, set()).add(value)
    live: set[str] = set()
    taken = peak = 0
    for position, op in enumerate(ops):
        for value in map(sets.representative, op.defines):
            if value not in theirs and value not in live:
                live.add(value)
                taken += sizes[value]
        peak = max(peak, taken)
        for value in dying.get(position, ()):
            if value in live:
                live.remove(value)
                taken -= sizes[value]
    return peak


def _bytes(view: TraceView, name: str) -> int | None:
    proxy: Any = view.values[name]
    if not is_tensor(proxy):
        return 0
    if not all(isinstance(extent, int) for extent in proxy.shape):
        return None
    requested: int = prod(proxy.shape) * proxy.dtype.bytes
    return -(-requested // ROUND) * ROUND if requested > SMALL else 0
