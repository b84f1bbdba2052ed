"""Faults of the schedule: reads, writes and draws that change places, and regions that cross what parts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cgverify.fuzzing.mutants.base import Mutant, Plants
from cgverify.ir import TraceView
from cgverify.transform import driver, effects, partition
from cgverify.transform.aliases import AliasSets
from cgverify.transform.effects import Effects
from cgverify.transform.partition import Partition, choose_partition
from cgverify.transform.roles import compute_addresses

Rank = Callable[[Effects, bool, int], tuple[int, int]]
"""From an op's effects, whether a write needs it, and its index: where it would rather stand, lowest first."""


class _NoAliases(AliasSets):
    """Claims that every value has memory of its own."""

    def representative(self, name: str) -> str:
        """The name itself."""
        return name


class ReadMovedPastWrite(Mutant):
    """The schedule ignores shared memory: a read may move past a write to what it reads under another name."""

    faults = ("A15", "G07")
    code = "CG402"
    shows = "static"
    in_rewrite = ((driver, "compute_aliases", lambda *args, **options: _NoAliases()),)


def _by(rank: Rank) -> Plants:
    """Orders the ops of each region by rank as far as the values passed between them allow, whatever they write."""

    def choose(view: TraceView, found: Sequence[Effects], aliases: AliasSets) -> Partition:
        made = choose_partition(view, found, aliases)
        phases = (
            phase if phase.device is None else replace(phase, ops=_reordered(view, found, phase.ops, rank))
            for phase in made.phases
        )
        return replace(made, phases=tuple(phases))

    return ((driver, "choose_partition", choose),)


def _reordered(view: TraceView, found: Sequence[Effects], ops: Sequence[int], rank: Rank) -> tuple[int, ...]:
    needed = _passed_to_writes(view, found, ops)
    waiting = sorted(ops, key=lambda index: (*rank(found[index], index in needed, index), index))
    missing = {name for index in ops for name in view.ops[index].defines}
    ordered: list[int] = []
    while waiting:
        chosen = next(index for index in waiting if missing.isdisjoint(view.ops[index].reads))
        waiting.remove(chosen)
        missing -= set(view.ops[chosen].defines)
        ordered.append(chosen)
    return tuple(ordered)


def _passed_to_writes(view: TraceView, found: Sequence[Effects], ops: Sequence[int]) -> set[int]:
    """The ops that a write of the region needs, and the writes."""
    needed: set[int] = set()
    names: set[str] = set()
    for index in reversed(ops):
        if found[index].writes or not names.isdisjoint(view.ops[index].defines):
            needed.add(index)
            names.update(view.ops[index].reads)
    return needed


class WriteMovedPastRead(Mutant):
    """A write does not wait for earlier reads of the same memory under another name."""

    faults = ("G07", "A15")
    code = "CG402"
    shows = "static"
    in_rewrite = _by(lambda op, needed, index: (0 if op.writes or needed else 1, index))


class ReadMovedBeforeWrite(Mutant):
    """A read under another name does not wait for an earlier write to the same memory."""

    faults = ("G07", "A15")
    code = "CG402"
    shows = "static"
    in_rewrite = _by(lambda op, needed, index: (1 if op.writes else 0, index))


class ReorderedWrites(Mutant):
    """Writes change places, the last one first, where no value passes between them."""

    faults = ("A14",)
    code = "CG402"
    shows = "static"
    in_rewrite = _by(lambda op, needed, index: (1, -index) if op.writes else (0, index))


class ReorderedDraws(Mutant):
    """Random draws change places, the last one first."""

    faults = ("R03",)
    code = "CG402"
    shows = "static"
    in_rewrite = _by(lambda op, needed, index: (1, -index) if op.random else (0, index))


class HiddenWrite(Mutant):
    """An op that writes an argument counts as pure: its order does not matter, and nothing is copied back."""

    faults = ("A10", "A01")
    code = "CG401"
    shows = "static"

    in_rewrite = ((effects, "_writes", lambda op, nested: ()),)


class CrossedBarrier(Mutant):
    """All that can be captured becomes one region, across ops that must run between its parts."""

    faults = ("G06",)
    code = "CG101"
    shows = "static"
    in_rewrite = ((partition, "_nearest", lambda before, colours: {k: int(colours[k] is not None) for k in before}),)


class LentResult(Mutant):
    """What the caller gets may stay in graph memory, as if nobody but a backward ever held it."""

    faults = ("A02", "C02")
    code = "CG302"
    shows = "static"
    in_rewrite = (
        (driver, "compute_addresses", lambda *args: replace(compute_addresses(*args), handed_out=frozenset())),
    )
