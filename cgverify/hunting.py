"""Hunts one mutant after the other: random programs, until the verifier rejects a rewrite and a run shows the fault.

Two hunts are reported apart. The *verifier* reads the traces of a mutant whose fault they show, and has to reject one
by the mutant's own code. *Running* makes the calls, on the emulation or on a GPU, and its evidence counts only if the
transform without the fault passes on the same program; that program is then made small. Kept programs come last, where
no random one gives the mutant away. Each mutant gets the same programs, whatever the number of processes.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

from cgverify.fuzzing.devices import DeviceName, choose_device
from cgverify.fuzzing.invariants import Crash
from cgverify.fuzzing.mutants import MUTANTS, Mutant
from cgverify.fuzzing.oracles import check
from cgverify.fuzzing.program import Program, load_program
from cgverify.fuzzing.reduce import reduce_program
from cgverify.fuzzing.rendering import render_source
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import apply_transform, forget_sources
from cgverify.fuzzing.strategies import programs
from cgverify.fuzzing.targets import Target, find_target
from cgverify.fuzzing.trial import Refused, build
from cgverify.fuzzing.verdict import Verdict
from cgverify.fuzzing.workers import call_each
from cgverify.verifier import verify

import hypothesis
import torch
from hypothesis import HealthCheck, Phase

BATCH = 50
"""Programs drawn from one seed."""

RANDOM_SHARE = 0.75
"""Part of the time for running a mutant that goes to random programs; the rest is for the kept ones."""

REDUCING = {"direct": 15.0, "jit": 40.0}
"""Seconds that making a program small may take, by path."""


@dataclass(frozen=True, slots=True)
class Hunt:
    """How one mutant fared.

    Attributes:
        name: the mutant's name.
        faults: the kinds of fault it stands for.
        shows: `static`, `emulated` or `gpu`: the cheapest place where it shows.
        possible: whether it can show where the programs ran.
        rejected: the code by which the verifier rejected it; empty if it did not, or if traces do not show the fault.
        traces: rewrites that the verifier read for that.
        invariant: what running broke; empty if nothing.
        programs: how many programs ran, the one that gave it away included.
        kept: name of the kept program that gave it away, in a trace or by running, where no random one did.
        seconds: for running them, without the reduction.
        size: operations of the reduced program; None if nothing was reduced.
        source: the reduced program.
    """

    name: str
    faults: tuple[str, ...]
    shows: str
    possible: bool
    rejected: str = ""
    traces: int = 0
    invariant: str = ""
    programs: int = 0
    seconds: float = 0.0
    size: int | None = None
    source: str = ""
    kept: str = ""

    @property
    def caught(self) -> str:
        """What caught it: the verifier's code, or else the invariant that running broke."""
        return self.rejected or self.invariant

    @property
    def ok(self) -> bool:
        """Whether it was caught where it shows, or cannot show here."""
        return bool(self.rejected if self.shows == "static" else self.invariant) or not self.possible


@dataclass(frozen=True, slots=True)
class Effort:
    """How far to go for each mutant.

    Attributes:
        programs: at most so many.
        seconds: for running them, at most.
        seed: chooses the programs.
        corpus: folder of kept programs that come after the random ones; empty for none.
        running: whether to run programs at all.
        reducing: whether to make what is found small.
    """

    programs: int = 1000
    seconds: float = 120.0
    seed: int = 0
    corpus: str = ""
    running: bool = True
    reducing: bool = True


def hunt_all(
    effort: Effort, device: str = "auto", jobs: int = 1, tell: Callable[[Hunt], None] | None = None
) -> list[Hunt]:
    """Hunt every mutant.

    Args:
        effort: for each.
        device: `auto`, `emulated` or `cuda`.
        jobs: processes; with one, all happens in this one. With more, a mutant that ends its process twice is caught as
            a `crash` of running, and the others go on.
        tell: is told of each hunt at its end.
    """
    where = choose_device(device)
    wanted = [mutant for mutant in MUTANTS if effort.running or mutant.shows == "static"]
    found: dict[str, Hunt] = {}
    for hunt in _hunt_each(wanted, effort, where, jobs):
        found[hunt.name] = hunt
        if tell is not None:
            tell(hunt)
    return [found[mutant.__name__] for mutant in wanted]


def _hunt_each(wanted: list[type[Mutant]], effort: Effort, device: DeviceName, jobs: int) -> Iterator[Hunt]:
    names = [mutant.__name__ for mutant in wanted]
    if jobs == 1:
        yield from (hunt_mutant(name, effort, device) for name in names)
        return
    for name, hunt in call_each(partial(_hunt_alone, effort=effort, device=device), names, jobs):
        # what running ends the process of may still show in traces
        yield hunt or replace(hunt_mutant(name, replace(effort, running=False), device), invariant=Crash.name)


def _hunt_alone(name: str, effort: Effort, device: DeviceName) -> Hunt:
    torch.set_num_threads(1)
    return hunt_mutant(name, effort, device)


def _begin(name: str, device: DeviceName) -> tuple[type[Mutant], Hunt]:
    mutant = next(mutant for mutant in MUTANTS if mutant.__name__ == name)
    return mutant, Hunt(name, mutant.faults, mutant.shows, mutant.shows != "gpu" or device == "cuda")


def hunt_mutant(name: str, effort: Effort, device: DeviceName) -> Hunt:
    """Hunt the mutant called `name`."""
    mutant, hunt = _begin(name, device)
    with _quiet():
        if mutant.shows == "static":
            hunt = _hunt_in_traces(mutant, hunt, effort)
        if effort.running and hunt.possible:
            hunt = _hunt_by_running(mutant, hunt, effort, device)
    return hunt


@contextmanager
def _quiet() -> Iterator[None]:
    """Let neither warnings nor the transform's log of captures given up through: the results are judged."""
    logger = logging.getLogger("cgverify")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _hunt_in_traces(mutant: type[Mutant], hunt: Hunt, effort: Effort) -> Hunt:
    for number, (kept, program) in enumerate(_programs(mutant, effort), 1):
        try:
            before = build(resolve_program(program), "dict")
        except Refused:
            continue
        report = verify(before, apply_transform(mutant(), before))
        forget_sources()
        hunt = replace(hunt, traces=number)
        if not report.ok and mutant.code in report.codes:
            return replace(hunt, rejected=mutant.code, kept=kept)
    return hunt


def _hunt_by_running(mutant: type[Mutant], hunt: Hunt, effort: Effort, device: DeviceName) -> Hunt:
    target = find_target(f"{mutant.__module__}:{mutant.__name__}")
    right = find_target("cgverify")
    began = time.monotonic()
    for number, (kept, program) in enumerate(_programs(mutant, effort), 1):
        verdict = _judge(program, target, mutant, device)
        hunt = replace(hunt, programs=number, seconds=time.monotonic() - began)
        # What fails without the fault too gives nothing away.
        if verdict.status == "fail" and _judge(program, right, mutant, device).status != "fail":
            hunt = replace(hunt, invariant=verdict.invariant, kept=kept or hunt.kept)
            return _reduce(mutant, program, hunt, target, device) if effort.reducing else hunt
    return hunt


def _programs(mutant: type[Mutant], effort: Effort) -> Iterator[tuple[str, Program]]:
    """Yield random programs for as long as the effort allows, then the kept ones with their names."""
    began = time.monotonic()
    for program in _draw(effort, gradients=mutant.path == "jit"):
        if time.monotonic() - began > effort.seconds * RANDOM_SHARE:
            break
        yield "", program
    if effort.corpus:
        for path in sorted(Path(effort.corpus).glob("*.json")):
            yield path.stem, load_program(path)


def _judge(program: Program, target: Target, mutant: type[Mutant], device: DeviceName) -> Verdict:
    return check(program, None, target, device, path=mutant.path, eager=False)


def _reduce(mutant: type[Mutant], program: Program, hunt: Hunt, target: Target, device: DeviceName) -> Hunt:
    """Make the program small, on the emulation if the fault shows there too: it is quicker, and no GPU is kept busy."""

    def fails_on(where: DeviceName) -> Callable[[Program], bool]:
        return lambda candidate: _judge(candidate, target, mutant, where).invariant == hunt.invariant

    if device == "cuda" and mutant.shows != "gpu" and fails_on("emulated")(program):
        device = "emulated"
    small = resolve_program(reduce_program(program, fails_on(device), seconds=REDUCING[mutant.path], one_fault=True))
    return replace(hunt, size=len(small.statements), source=render_source(small))


def _draw(effort: Effort, *, gradients: bool) -> Iterator[Program]:
    for batch in range(-(-effort.programs // BATCH)):
        yield from draw_batch(min(BATCH, effort.programs - batch * BATCH), effort.seed, batch, gradients=gradients)


@lru_cache(maxsize=64)
def draw_batch(count: int, seed: int, batch: int, *, gradients: bool) -> tuple[Program, ...]:
    """Return programs, the same ones for the same arguments."""
    drawn: list[Program] = []

    @hypothesis.seed(seed * 10_007 + batch)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(program=programs(gradients=gradients))
    def collect(program: Program) -> None:
        drawn.append(program)

    collect()
    return tuple(drawn)
