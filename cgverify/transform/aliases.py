"""Which values of a straight-line trace may share memory.

Facts: a partition of names into classes; two values in different classes never share memory. Direction: one forward
walk, a union-find over names. Transfer rule: a view, an op that may return its argument, a fusion and an unknown op
join their results with their tensor arguments; `update_aliases` and `shallow_copy` join position by position; `copy_`
joins its result with its destination; every other op returns fresh memory, and so does a conversion to another dtype.
Values from outside (parameters, and tensors unpacked from the lists a backward trace receives) form one class: the
caller may pass views of one storage.

What it does not know: strides, offsets, and so whether two views of one storage overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cgverify.ir import Op, OpKind, TraceView, is_of_another_dtype, is_tensor
from cgverify.transform.effects import Effects
from cgverify.transform.tables import CAPTURABLE, CONVERSIONS, IDENTITIES, MAY_ALIAS


class AliasSets:
    """Classes of names that may share memory, by union-find with path halving."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def representative(self, name: str) -> str:
        """The name that stands for `name`'s class."""
        parent = self._parent
        while (above := parent.setdefault(name, name)) != name:
            parent[name] = parent.setdefault(above, above)
            name = parent[name]
        return name

    def may_alias(self, one: str, other: str) -> bool:
        """Whether the two values may share memory."""
        return self.representative(one) == self.representative(other)

    def _join(self, names: Iterable[str]) -> None:
        first: str | None = None
        for name in names:
            root = self.representative(name)
            if first is None:
                first = root
            else:
                self._parent[root] = first


def compute_aliases(
    view: TraceView, effects: Sequence[Effects], ops: Iterable[Op] | None = None, *, caller_is_one: bool = True
) -> AliasSets:
    """Alias classes of a trace, or of some of its ops taken alone.

    Args:
        view: the trace.
        effects: one per op of `view`.
        ops: the ops to look at, all of them by default.
        caller_is_one: whether values from outside count as one class. Off, only what the ops do joins values.
    """
    sets = AliasSets()
    if caller_is_one:
        sets._join(values_from_outside(view))
    for op in view.ops if ops is None else ops:
        if op.kind is OpKind.COMPUTE:
            for group in _joined(op, effects[op.index], view):
                sets._join(group)
    return sets


def values_from_outside(view: TraceView) -> list[str]:
    """Tensors the caller hands in: parameters, and what is unpacked from the lists a backward trace receives."""
    names = [name for name in view.parameters if is_tensor(view.values.get(name))]
    for op in view.ops:
        if op.kind is OpKind.UNPACK:
            names += [name for name in op.outputs if is_tensor(view.values[name])]
    return names


def _joined(op: Op, effects: Effects, view: TraceView) -> list[list[str]]:
    if op.id in IDENTITIES:
        arguments = [proxy.name for proxy in op.bsym.flat_proxy_args]
        results = [proxy.name for proxy in op.bsym.flat_proxy_outs]
        if len(arguments) == len(results):
            return [list(pair) for pair in zip(arguments, results, strict=True)]
    if op.id == "copy_":
        return [[op.bsym.args[1].name, *op.outputs]]
    if op.id in CONVERSIONS and not effects.opaque and _converts(op, view):
        return []
    if op.is_fusion or effects.opaque or op.id in MAY_ALIAS or op.id not in CAPTURABLE:
        return [[name for name in (*op.reads, *op.outputs) if is_tensor(view.values[name])]]
    # an op that writes one of its arguments in place may return it
    return [[*effects.writes, *op.outputs]] if effects.writes else []


def _converts(op: Op, view: TraceView) -> bool:
    """Whether every result is of another dtype than every tensor that the op reads."""
    read = [view.values[name] for name in op.reads if is_tensor(view.values[name])]
    made = [view.values[name] for name in op.outputs]
    return bool(made) and all(is_of_another_dtype(one, other) for one in read for other in made)
