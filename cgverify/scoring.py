"""Counts how many corrupted rewrites the verifier rejects: a checker that finds nothing may be one that sees nothing.

A *mutator* corrupts the rewrite of a random program in one way, and the verifier has to reject it by the code that the
fault should trigger, each time, until it was planted often enough. Programs come from the fuzzer's strategies, the same
ones each time. Broken transforms and runtimes are :mod:`cgverify.hunting`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cgverify.api import CUDAGraphTransform
from cgverify.fuzzing.drawing import for_each_program
from cgverify.fuzzing.mutators import MUTATORS, Mutator
from cgverify.fuzzing.program import Program
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import apply_transform, forget_sources
from cgverify.fuzzing.trial import Refused, build

from thunder.core.trace import TraceCtx

ENOUGH = 5
"""How often a fault is planted before it is left alone."""

MOST_ROUNDS = 10
"""How many times as many programs are drawn for faults that have had no place in any: some need two random draws."""


@dataclass(frozen=True, slots=True)
class Score:
    """How one planted fault fared.

    Attributes:
        name: the mutator's name.
        code: the rule that should speak.
        planted: in how many rewrites it was planted.
        caught: how many of those the verifier rejected by that code.
    """

    name: str
    code: str
    planted: int
    caught: int

    @property
    def ok(self) -> bool:
        """Whether it was planted at all, and caught each time."""
        return 0 < self.planted == self.caught


def score_mutators(programs_drawn: int = 1000, seed: int = 0, tell: Callable[[], None] = lambda: None) -> list[Score]:
    """Plant each fault in up to ``ENOUGH`` rewrites of ``programs_drawn`` programs and count.

    As many more are drawn, up to ``MOST_ROUNDS`` times, until each fault was planted once.

    Args:
        programs_drawn: how many programs are drawn; those after every fault was planted often enough cost little.
        seed: chooses the programs.
        tell: called for each program.
    """
    planted: Counter[str] = Counter()
    caught: Counter[str] = Counter()

    def plant_all(program: Program) -> None:
        tell()
        waiting = [mutator for mutator in MUTATORS if planted[mutator.name] < ENOUGH]
        rewrite = _rewrite(program) if waiting else None
        if rewrite is None:
            return
        for mutator in waiting:
            found = mutator.catches(*rewrite)
            if found is not None:
                planted[mutator.name] += 1
                caught[mutator.name] += found
        forget_sources()

    for round_ in range(MOST_ROUNDS):
        # Far apart, so that the second round of a seed is not the first of the next.
        for_each_program(plant_all, programs_drawn, seed + round_ * 1_000_000_007)
        if all(planted[mutator.name] for mutator in MUTATORS):
            break
    return [_score(mutator, planted, caught) for mutator in MUTATORS]


def _score(mutator: Mutator, planted: Counter[str], caught: Counter[str]) -> Score:
    return Score(mutator.name, mutator.code, planted[mutator.name], caught[mutator.name])


def _rewrite(program: Program) -> tuple[TraceCtx, TraceCtx] | None:
    """Return the program's trace and what the transform makes of it, None where it makes nothing or Thunder refuses."""
    try:
        before = build(resolve_program(program), "dict")
    except Refused:
        return None
    after = apply_transform(CUDAGraphTransform(verify=False), before)
    return None if after is before else (before, after)
