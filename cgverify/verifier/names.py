"""Which names are alive: one walk over a straight line of ops, recording each name that is used wrongly.

Facts: a name is undefined, alive, or deleted. Transfer: a parameter or result makes it alive, a DEL deletes it,
anything else must find it alive. Direction: forward; straight lines need no join. A faulty name is then taken as alive,
so that one fault is reported once. Not covered: the memory behind the names (`state.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from cgverify.ir import Op, OpKind


class Fault(Enum):
    """What can be wrong with the use of a name."""

    UNDEFINED = "undefined"
    DELETED = "deleted"
    DELETED_TWICE = "deleted twice"
    REDEFINED = "redefined"


@dataclass(frozen=True, slots=True)
class NameFault:
    """One wrong use.

    Attributes:
        op: the op that uses, deletes or defines the name.
        earlier: the op that deleted or defined it before, if there is one.
    """

    kind: Fault
    name: str
    op: Op
    earlier: Op | None = None


def find_faults(ops: Iterable[Op], parameters: Iterable[str]) -> Iterator[NameFault]:
    """All wrong uses of names, in order; linear."""
    alive: dict[str, Op | None] = dict.fromkeys(parameters)
    deleted: dict[str, Op] = {}
    for op in ops:
        if op.kind is OpKind.COMMENT:
            continue
        if op.kind is OpKind.PARAMETER:
            alive.update(dict.fromkeys(op.outputs, op))
            continue
        if op.kind is OpKind.DEL:
            for proxy in op.bsym.flat_proxy_args:
                name = proxy.name
                if name in deleted:
                    yield NameFault(Fault.DELETED_TWICE, name, op, deleted[name])
                elif name not in alive:
                    yield NameFault(Fault.UNDEFINED, name, op)
                alive.pop(name, None)
                deleted[name] = op
            continue
        for name in op.reads:
            if name in alive:
                continue
            if name in deleted:
                yield NameFault(Fault.DELETED, name, op, deleted[name])
            else:
                yield NameFault(Fault.UNDEFINED, name, op)
                alive[name] = None
        yield from _define(op, alive, deleted)


def _define(op: Op, alive: dict[str, Op | None], deleted: dict[str, Op]) -> Iterator[NameFault]:
    results = [proxy.name for proxy in op.bsym.flat_proxy_outs]
    repeated = {name for name in results if results.count(name) > 1} if len(results) != len(op.outputs) else set()
    for name in op.defines:
        if name in alive:
            yield NameFault(Fault.REDEFINED, name, op, alive[name])
        elif name in deleted:
            yield NameFault(Fault.REDEFINED, name, op, deleted.pop(name))
        elif name in repeated:
            yield NameFault(Fault.REDEFINED, name, op, op)
        alive[name] = op
