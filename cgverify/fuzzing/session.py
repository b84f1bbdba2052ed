"""Runs one shard: draws programs, has each judged, counts what they did, and looks into what fails.

A shard is a stream of programs of its own: its seed is derived here from campaign, property and shard, never taken
from a run-wide option, under which all shards would draw the same stream. Hypothesis draws; a failing program does
not stop it. What a dead process left unfinished in its journal runs first, beside the stream.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from cgverify.fuzzing.coverage import CoverageTally
from cgverify.fuzzing.devices import DeviceName
from cgverify.fuzzing.executor import Executor, InProcess
from cgverify.fuzzing.findings import Effort, Findings
from cgverify.fuzzing.hashes import add_hashes, hash_text
from cgverify.fuzzing.invariants import Crash
from cgverify.fuzzing.journal import Journal
from cgverify.fuzzing.outcome import Outcome, Recovered
from cgverify.fuzzing.program import Program, encode_program
from cgverify.fuzzing.properties import Property
from cgverify.fuzzing.rendering import render_source
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.steering import steer
from cgverify.fuzzing.tally import count_verdict
from cgverify.fuzzing.targets import Target
from cgverify.fuzzing.verdict import Verdict

from hypothesis import HealthCheck, Phase, given, seed, settings

BATCH = 200
"""Programs drawn from one seed; a shard goes on with the next seed until its budget is used up."""

MAX_BASE_FAULTS = 3
"""Examples of base faults that a shard keeps."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much to run: a number of programs, a number of seconds, or both, whichever ends first."""

    programs: int
    seconds: float | None = None


@dataclass
class Shard:
    """One shard of one property.

    Attributes:
        property: what is claimed.
        target: the transform under test.
        device: where programs run.
        folder: where failures are written.
        shard: its number.
        campaign: a name that, with the shard, fixes every program drawn.
        executor: judges programs; by default in this process.
        journal: where programs are recorded before they run, if anywhere.
        effort: how far to go into what fails.
        keep_recovered: told at once of each example that was run again.
        searching: whether Hypothesis looks for programs of many regions and aliases, besides drawing.
    """

    property: Property
    target: Target
    device: DeviceName
    folder: FilePath
    shard: int
    campaign: str
    executor: Executor | None = None
    journal: Journal | None = None
    effort: Effort = field(default_factory=Effort)
    keep_recovered: Callable[[Recovered], None] | None = None
    searching: bool = False

    def run(self, budget: Budget) -> Outcome:
        """Run what is left over from dead processes, then draw and judge programs until the budget is used up."""
        self.begin(budget.seconds)
        self.recover()
        batch = 0
        while self.outcome.programs < budget.programs and not self.is_late():
            before = self.outcome.programs
            self.draw(min(BATCH, budget.programs - before), batch)
            batch += 1
            if self.outcome.programs == before:
                break
        return self.end()

    def begin(self, seconds: float | None, known: Findings | None = None) -> None:
        """Start an outcome, with what an earlier one found if given, and a time limit from now."""
        judge = self.executor or InProcess(self.target, self.device)
        self.judge: Executor = judge
        self.findings = known or Findings(self.property, self.target, judge, self.folder, self.effort)
        self.outcome = Outcome(self.property.name, statuses={}, failures=[], base_faults=[], recovered=[])
        self.counts: Counter[str] = Counter()
        self.coverage = CoverageTally()
        self.hashes = ""
        self.started = time.monotonic()
        self.deadline = None if seconds is None else self.started + seconds
        self.children = judge.children
        self.lost = len(judge.lost)

    def end(self) -> Outcome:
        """Return the outcome."""
        self._note_lost()
        outcome = self.outcome
        outcome.statuses = dict(self.counts)
        outcome.hashes = add_hashes([self.hashes])
        outcome.coverage = self.coverage.total()
        outcome.failures = self.findings.failures
        outcome.children = self.judge.children - self.children
        return outcome

    def is_late(self) -> bool:
        """Whether the time is used up."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def recover(self, look_into: bool = True) -> None:
        """Judge what dead processes were judging; it counts as recovered, and not among the programs drawn.

        `look_into` says what to do with what fails: reduce and write it, or not, because it will be drawn again.
        """
        if self.journal is None:
            return
        for number, program in self.journal.claim(self.property.name):
            if given_up := self._find_given_up(self.journal, program):
                with self.journal.running(self.property.name, program, number) as entry:
                    entry.status, entry.invariant = given_up.status, given_up.invariant
                self._note_recovered(given_up, "process", repr(program))
                if look_into:
                    self._record_given_up(program, given_up)
                continue
            with self.journal.running(self.property.name, program, number) as entry:
                verdict = self.judge.judge(self.property.name, program)
                entry.status, entry.invariant = verdict.status, verdict.invariant
                self._note_recovered(verdict, "process", render_source(resolve_program(program)))
                if look_into and verdict.status == "fail":
                    self._look_into(program, verdict)
            if look_into:
                self.journal.forget_ends(self.property.name, program)

    def draw(self, count: int, batch: int) -> None:
        """Draw and judge `count` programs of one batch, or as many as time allows."""

        @seed(derive_seed(self.campaign, self.property.name, self.shard, batch))
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.target) if self.searching else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(program=self.property.draw())
        def draw(program: Program) -> None:
            if not self.is_late():
                verdict = self._run(program)
                if self.searching:
                    steer(program, verdict)

        draw()

    def _run(self, program: Program) -> Verdict:
        if self.journal is None:
            return self._judge(program)
        if given_up := self._find_given_up(self.journal, program):
            self._count(program, given_up)
            self._record_given_up(program, given_up)
            return given_up
        with self.journal.running(self.property.name, program) as entry:
            verdict = self._judge(program)
            entry.status, entry.invariant = verdict.status, verdict.invariant
        self.journal.forget_ends(self.property.name, program)
        return verdict

    def _find_given_up(self, journal: Journal, program: Program) -> Verdict | None:
        """Return the verdict on a program that too many processes ended with, without judging it; None for others."""
        if not journal.is_hopeless(self.property.name, program):
            return None
        file = journal.find_ends(self.property.name, program).name
        evidence = f"no process survives judging it; to have it judged again, delete {file} in the journal"
        return Verdict("fail", Crash.name, None, evidence)

    def _record_given_up(self, program: Program, verdict: Verdict) -> None:
        self.findings.give_up(program, verdict, time.monotonic() - self.started)

    def _count(self, program: Program, verdict: Verdict) -> None:
        self.outcome.programs += 1
        self.hashes = add_hashes([self.hashes, hash_text(encode_program(program))])
        count_verdict(self.counts, program, verdict)

    def _judge(self, program: Program) -> Verdict:
        begun = time.monotonic()
        verdict = self.judge.judge(self.property.name, program)
        self.outcome.seconds += time.monotonic() - begun
        self._note_lost()
        self._count(program, verdict)
        self.coverage.observe(program)
        if verdict.facts.base_fault and len(self.outcome.base_faults) < MAX_BASE_FAULTS:
            source = render_source(resolve_program(program))
            self.outcome.base_faults.append(f"{verdict.facts.base_fault}\n{source}")
        if verdict.status == "fail":
            self._look_into(program, verdict)
        return verdict

    def _note_lost(self) -> None:
        for lost in self.judge.lost[self.lost :]:
            self._note_recovered(lost.verdict, "child", render_source(resolve_program(lost.program)))
        self.lost = len(self.judge.lost)

    def _note_recovered(self, verdict: Verdict, cause: str, source: str) -> None:
        entry = Recovered(self.property.name, source, verdict.status, verdict.evidence, cause)
        self.outcome.recovered.append(entry)
        if self.keep_recovered is not None:
            self.keep_recovered(entry)

    def _look_into(self, program: Program, verdict: Verdict) -> None:
        now = time.monotonic()
        left = None if self.deadline is None else self.deadline - now
        self.findings.add(program, verdict, self.counts, now - self.started, left)


def derive_seed(*parts: object) -> int:
    """Return a seed that depends on all of `parts` and on nothing else."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big")
