"""How long each value of a rewritten trace is needed and held, and who owns its memory.

Time is the trace after, line by line, the ops of a region included. A value begins where it is defined, is needed up to
its last use, and is held until its DEL, or to the end if it is returned. Inside a region the graph owns the memory, and
uses it again after the last use. It says nothing about views, which keep the memory of their base.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from cgverify.plan import OutputRole
from cgverify.report.picture import STATIC_BUFFER, Picture

COLLECTION = "Collection"
"""The type of a Python list, which holds values and is none."""

IN_GRAPH = frozenset({OutputRole.LENT.value, STATIC_BUFFER})
"""Roles of results that stay in graph memory."""

CALLER, GRAPH, CALL = "caller", "graph", "call"

OWNERS = {
    CALLER: "an argument, or a result in memory of the caller's own",
    GRAPH: "memory of a graph, at a fixed address; what is lent stays there until nobody holds it",
    CALL: "memory of this call alone, free again after its del",
}


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One value.

    Attributes:
        name: the value's name.
        type: its type as the trace prints it.
        owner: `caller`, `graph` or `call`.
        born: index of the line that defines it.
        last: index of the last line that uses it; `born` if none does.
        freed: index of the line after which nobody holds it; the last line of the trace if it is returned.
        roles: for each region that takes or gives it, the region's number and the plan's word.
    """

    name: str
    type: str
    owner: str
    born: int
    last: int
    freed: int
    roles: tuple[tuple[int, str], ...]


def compute_lifetimes(picture: Picture) -> tuple[Lifetime, ...]:
    """The values of the trace after, in the order in which they begin; Python lists are left out."""
    lines = picture.after
    born: dict[str, int] = {}
    last: dict[str, int] = {}
    freed: dict[str, int] = {}
    inside = {name: line.region for line in lines if line.kind == "op" for name in line.defines}
    outer: set[str] = set()
    for index, line in enumerate(lines):
        for name in line.defines:
            born.setdefault(name, index)
        if line.kind == "del":
            freed.update(dict.fromkeys(line.reads, index))
            continue
        last.update(dict.fromkeys(line.reads, index))
        if line.kind == "region":
            outer.update(line.defines)
    kept = {name for line in lines if line.kind in ("parameter", "unpack") for name in line.defines}
    kept |= {name for line in lines if line.kind == "return" for name in line.reads}
    lent = {passed.name for box in picture.regions for passed in box.outputs if passed.role in IN_GRAPH}
    types = {name: type_ for line in lines for name, type_ in line.types}
    roles = _roles(picture)

    def lifetime(name: str) -> Lifetime:
        local = inside.get(name) is not None and name not in outer
        owner = GRAPH if local or name in lent else CALLER if name in kept else CALL
        used = last.get(name, born[name])
        end = used if local else freed.get(name, len(lines) - 1)
        return Lifetime(name, types.get(name, ""), owner, born[name], used, end, tuple(roles.get(name, ())))

    return tuple(lifetime(name) for name in born if types.get(name) != COLLECTION)


def _roles(picture: Picture) -> dict[str, list[tuple[int, str]]]:
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for box in picture.regions:
        for passed in box.inputs:
            word = ", written" if passed.written else ""
            found[passed.name].append((box.number, (passed.role or "input") + word))
        for passed in box.outputs:
            found[passed.name].append((box.number, passed.role or "output"))
    return found
