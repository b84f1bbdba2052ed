"""The fewest regions that respect data order and effect order.

Each op is capturable or not. Edges: a use follows its definition; a write follows the earlier reads and writes of its
alias class, and a read follows the class's last write; random draws keep their order; ops with unknown effects keep
theirs, and count as writers of their arguments and of all memory of the caller's. A schedule alternates phases of
non-capturable and capturable ops; each non-empty capturable phase is one region per device.

Finding it: schedule all ready ops of one colour, then all of the other, and so on, *starting with the non-capturable
ones*. Each phase is a superset of what any other schedule could have done by then (by induction on phases), so the
number of capturable phases is least. Among the schedules with that many phases the one nearest the original order is
taken: each op has an earliest and a latest phase, and goes, in original order, to the phase of its predecessor where
that lies in between. Both walks are linear in ops plus edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cgverify.ir import OpKind, TraceView, is_tensor
from cgverify.plan import LeftOut
from cgverify.transform.aliases import AliasSets, values_from_outside
from cgverify.transform.effects import Effects

_STRUCTURAL = (OpKind.PARAMETER, OpKind.DEL, OpKind.RETURN)


@dataclass(frozen=True, slots=True)
class Phase:
    """Consecutive ops of the schedule.

    Attributes:
        ops: indices into the original trace, in original order.
        device: the device of a region, such as `cuda:0`; None where the ops run un-graphed.
    """

    ops: tuple[int, ...]
    device: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    """A schedule and the ops left out of every region.

    Attributes:
        phases: in execution order; parameters, DELs and RETURN are in none.
        left_out: compute ops that run un-graphed, with their reasons, in original order.
    """

    phases: tuple[Phase, ...]
    left_out: tuple[LeftOut, ...]


def choose_partition(view: TraceView, effects: Sequence[Effects], aliases: AliasSets) -> Partition:
    """Schedules the ops of `view` into the fewest regions; linear in ops and dependences."""
    before = compute_dependences(view, effects, aliases)
    colours = {index: _colour(view, effects, index) for index in before}
    phases = _gather(_nearest(before, colours), colours)
    useful = {index for phase in phases for index in phase.ops if effects[index].works}
    kept: list[Phase] = []
    reasons: dict[int, str] = {}
    for phase in phases:
        if phase.device is not None and useful.isdisjoint(phase.ops):
            reasons.update(dict.fromkeys(phase.ops, "launches no device work of its own, nor do its neighbours"))
            phase = Phase(phase.ops, None)
        elif phase.device is None:
            reasons.update({index: effects[index].barrier or "" for index in phase.ops})
        kept.append(phase)
    return Partition(tuple(kept), _left_out(view, reasons))


def compute_dependences(view: TraceView, effects: Sequence[Effects], aliases: AliasSets) -> dict[int, set[int]]:
    """For each schedulable op, the earlier ops that must run before it. Edges grow linearly with reads and writes."""
    before: dict[int, set[int]] = {}
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    outside = {aliases.representative(name) for name in values_from_outside(view)[:1]}
    last_draw: int | None = None
    last_opaque: int | None = None
    for op in view.ops:
        if op.kind in _STRUCTURAL:
            continue
        edges = {view.definitions[name] for name in op.reads if view.definitions.get(name, -1) in before}
        written = {aliases.representative(name) for name in effects[op.index].writes}
        if effects[op.index].opaque:
            written |= outside  # who knows what it does may reach any memory of the caller's
        for name in op.reads:
            root = aliases.representative(name)
            if root in writer:
                edges.add(writer[root])
            if root not in written:
                readers.setdefault(root, []).append(op.index)
        for root in written:
            edges.update(readers.pop(root, ()))
            writer[root] = op.index
        if effects[op.index].random:
            edges |= set() if last_draw is None else {last_draw}
            last_draw = op.index
        if effects[op.index].opaque:
            edges |= set() if last_opaque is None else {last_opaque}
            last_opaque = op.index
        edges.discard(op.index)
        before[op.index] = edges
    return before


def _colour(view: TraceView, effects: Sequence[Effects], index: int) -> str | None:
    """The device of a capturable op, None for one that runs un-graphed."""
    if effects[index].barrier is not None:
        return None
    if effects[index].device is not None:
        return effects[index].device
    names = (*view.ops[index].reads, *view.ops[index].outputs)
    return str(next(view.values[name].device.device_str() for name in names if is_tensor(view.values[name])))


def _nearest(before: dict[int, set[int]], colours: dict[int, str | None]) -> dict[int, int]:
    """Phase of each op: even phases run un-graphed, odd ones are regions."""
    earliest: dict[int, int] = {}
    for index, edges in before.items():
        floor = max((earliest[edge] + (colours[edge] != colours[index]) for edge in edges), default=0)
        earliest[index] = _fit(floor, colours[index])
    last = max(earliest.values(), default=0)
    latest = {index: _fit_down(last, colours[index]) for index in before}
    for index in reversed(before):
        for edge in before[index]:
            ceiling = _fit_down(latest[index] - (colours[edge] != colours[index]), colours[edge])
            latest[edge] = min(latest[edge], ceiling)
    phases: dict[int, int] = {}
    current = 0
    for index, edges in before.items():
        floor = max((phases[edge] + (colours[edge] != colours[index]) for edge in edges), default=0)
        wanted = max(_fit(floor, colours[index]), _fit(current, colours[index]))
        phases[index] = current = min(wanted, latest[index])
    return phases


def _fit(phase: int, colour: str | None) -> int:
    return phase + (phase % 2 != (colour is not None))


def _fit_down(phase: int, colour: str | None) -> int:
    return phase - (phase % 2 != (colour is not None))


def _gather(phases: dict[int, int], colours: dict[int, str | None]) -> list[Phase]:
    """Phases in order; a capturable phase that spans several devices becomes one region per device."""
    groups: dict[tuple[int, str | None], list[int]] = {}
    for index in sorted(phases, key=lambda index: (phases[index], index)):
        groups.setdefault((phases[index], colours[index]), []).append(index)
    return [Phase(tuple(ops), device) for (_, device), ops in groups.items()]


def _left_out(view: TraceView, reasons: dict[int, str]) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(index, view.ops[index].name, reasons[index], view.ops[index].source)
        for index in sorted(reasons)
        if view.ops[index].kind is OpKind.COMPUTE
    )
