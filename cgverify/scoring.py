"""Counts how many planted faults are caught, so that a checker that finds nothing is told from one that sees nothing.

Two kinds of faults are planted in random programs, one at a time. A *mutator* corrupts a rewrite: the verifier has to
reject it by the code that the fault should trigger, each time, until it was planted often enough. A *mutant* is a
broken transform or runtime: the verifier has to reject the rewrite of some program, or calls of some program have to
show the fault. Programs come from the fuzzer's strategies, the same ones each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cgverify.api import CUDAGraphTransform
from cgverify.diagnostics import Severity
from cgverify.fuzzing.devices import DeviceName, choose_device
from cgverify.fuzzing.mutants import MUTANTS
from cgverify.fuzzing.mutators import MUTATORS, Mutator
from cgverify.fuzzing.oracles import check
from cgverify.fuzzing.program import Program
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import apply_transform, forget_sources
from cgverify.fuzzing.strategies import programs
from cgverify.fuzzing.targets import find_target
from cgverify.fuzzing.tracing import build_trace
from cgverify.verifier import verify

import hypothesis
from hypothesis import HealthCheck, Phase
from thunder.core.trace import TraceCtx

ENOUGH = 5
"""How often a fault is planted before it is left alone."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """How one mutant fared.

    Attributes:
        name: the mutant's name.
        programs: how many programs were put through it, the one that gave it away included.
        caught: the rule's code or the oracle's invariant that caught it; empty if nothing did.
        possible: whether it can show where the programs ran: some faults need a GPU.
    """

    name: str
    programs: int
    caught: str
    possible: bool

    @property
    def ok(self) -> bool:
        """Whether it was caught, or could not be."""
        return bool(self.caught) or not self.possible


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


def score_mutators(programs_drawn: int = 1000, seed: int = 0) -> list[Score]:
    """Plant each fault in up to ``ENOUGH`` rewrites of ``programs_drawn`` programs and count.

    Args:
        programs_drawn: how many programs are drawn; those after every fault was planted often enough cost little.
        seed: chooses the programs.
    """
    planted: Counter[str] = Counter()
    caught: Counter[str] = Counter()

    def plant_all(program: Program) -> None:
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

    _for_programs(plant_all, programs_drawn, seed)
    return [_score(mutator, planted, caught) for mutator in MUTATORS]


def hunt_static_mutants(programs_drawn: int = 1000, seed: int = 0) -> list[Hunt]:
    """Put up to ``programs_drawn`` programs through each mutant whose traces show its fault, and run none.

    Caught is a mutant that the verifier rejects by the mutant's own code.
    """
    static = [mutant for mutant in MUTANTS if mutant.shows == "static"]
    ran: Counter[str] = Counter()
    caught: dict[str, str] = {}

    def put_through_all(program: Program) -> None:
        for mutant in static:
            if mutant.__name__ in caught:
                continue
            ran[mutant.__name__] += 1
            before = build_trace(resolve_program(program))
            report = verify(before, apply_transform(mutant(), before))
            if not report.ok and mutant.code in report.codes:
                caught[mutant.__name__] = mutant.code

    _for_programs(put_through_all, programs_drawn, seed)
    return [Hunt(m.__name__, ran[m.__name__], caught.get(m.__name__, ""), True) for m in static]


def hunt_mutants(programs_drawn: int = 1000, seed: int = 0, device: str = "auto") -> list[Hunt]:
    """Put up to ``programs_drawn`` programs through each mutant until one gives it away.

    Args:
        programs_drawn: how many programs are drawn; those after every mutant was caught cost little.
        seed: chooses the programs.
        device: ``auto``, ``emulated`` or ``cuda``.
    """
    where = choose_device(device)
    possible = {mutant.__name__: mutant for mutant in MUTANTS if mutant.shows != "gpu" or where == "cuda"}
    ran: Counter[str] = Counter()
    caught: dict[str, str] = {}

    def put_through_all(program: Program) -> None:
        for name in [name for name in possible if name not in caught]:
            ran[name] += 1
            evidence = _find_evidence(program, possible[name], where)
            # What fails without the fault too gives nothing away.
            if evidence and not _find_evidence(program, CUDAGraphTransform, where):
                caught[name] = evidence

    _for_programs(put_through_all, programs_drawn, seed, history=True)
    names = [mutant.__name__ for mutant in MUTANTS]
    return [Hunt(name, ran[name], caught.get(name, ""), name in possible) for name in names]


def _find_evidence(program: Program, transform: type[CUDAGraphTransform], device: DeviceName) -> str:
    """Return the code or the invariant by which a program fails under a transform, else an empty string.

    The verifier comes first: it is cheaper than the calls.
    """
    before = build_trace(resolve_program(program))
    report = verify(before, apply_transform(transform(), before))
    if not report.ok:
        return next(found.code for found in report.diagnostics if found.severity is Severity.ERROR)
    target = find_target(f"{transform.__module__}:{transform.__name__}")
    verdict = check(program, None, target, device, eager=False)
    return verdict.invariant if verdict.status == "fail" else ""


def _score(mutator: Mutator, planted: Counter[str], caught: Counter[str]) -> Score:
    return Score(mutator.name, mutator.code, planted[mutator.name], caught[mutator.name])


def _rewrite(program: Program) -> tuple[TraceCtx, TraceCtx] | None:
    """Return the program's trace and what the transform makes of it, None where it makes nothing."""
    before = build_trace(resolve_program(program))
    after = apply_transform(CUDAGraphTransform(verify=False), before)
    return None if after is before else (before, after)


def _for_programs(act: Callable[[Program], None], count: int, seed: int, *, history: bool = False) -> None:
    """Call ``act`` with ``count`` programs, the same ones for the same seed."""
    draw = hypothesis.given(programs(history=history))
    settings = hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    hypothesis.seed(seed)(settings(draw(act)))()
