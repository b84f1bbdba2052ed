"""Runs many programs through one property, collects what fails, and makes each failure small, written and countable.

A shard is a stream of programs of its own: its seed is derived here from campaign, property and shard, never taken
from a run-wide option, under which all shards would draw the same stream. Hypothesis draws; a failing program does
not stop it. Failures are told apart by invariant and by the operations that the reduced program is left with, so one
fault seen a thousand times is reported once, with its count.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from cgverify.fuzzing.devices import DeviceName
from cgverify.fuzzing.oracles import Verdict, check
from cgverify.fuzzing.outcome import Failure, Outcome
from cgverify.fuzzing.program import Program, encode_program
from cgverify.fuzzing.properties import Property, choose_form
from cgverify.fuzzing.reduce import reduce_program
from cgverify.fuzzing.rendering import render_source
from cgverify.fuzzing.reproducer import render_reproducer, write_failure
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import Path
from cgverify.fuzzing.targets import Target

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings

MAX_FAILURES = 8
"""Distinct failures that one shard reduces and writes; what comes after is only counted."""

MAX_PER_INVARIANT = 3

MAX_REDUCING = 40.0
"""Seconds after which a shard's further reductions are cut short."""

LEAST_REDUCING = {"direct": 10.0, "jit": 40.0}
"""Seconds that a reduction gets at least, once begun, by path; most need a tenth of that."""

BATCH = 200
"""Programs drawn from one seed; a shard goes on with the next seed until its budget is used up."""


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
    """

    property: Property
    target: Target
    device: DeviceName
    folder: FilePath
    shard: int
    campaign: str
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, budget: Budget) -> Outcome:
        """Draw and judge programs until the budget is used up."""
        self.outcome = Outcome(self.property.name, statuses={}, failures=[], base_faults=[])
        self.started = time.monotonic()
        self.deadline = None if budget.seconds is None else self.started + budget.seconds
        self.digest = hashlib.sha256()
        batch = 0
        while self.outcome.programs < budget.programs and not self._is_late():
            before = self.outcome.programs
            self._draw(min(BATCH, budget.programs - before), batch)
            batch += 1
            if self.outcome.programs == before:
                break
        self.outcome.statuses = dict(self.counts)
        self.outcome.hashes = self.digest.hexdigest()[:16]
        return self.outcome

    def _draw(self, count: int, batch: int) -> None:
        @seed(derive_seed(self.campaign, self.property.name, self.shard, batch))
        @settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        @given(program=self.property.draw())
        def draw(program: Program) -> None:
            if not self._is_late():
                self._judge(program)

        draw()

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def _judge(self, program: Program) -> None:
        text = encode_program(program)
        self.digest.update(text.encode())
        begun = time.monotonic()
        verdict = self.property.judge(program, self.target, self.device)
        self.outcome.seconds += time.monotonic() - begun
        self.outcome.programs += 1
        self._count(program, verdict)
        if verdict.status == "fail":
            self._fail(program, verdict)

    def _count(self, program: Program, verdict: Verdict) -> None:
        facts = verdict.facts
        self.counts[verdict.status] += 1
        self.counts[f"tier {verdict.tier}"] += 1
        if facts.base_tier:
            self.counts[f"eager {facts.base_tier}"] += 1
        self.counts["captured"] += facts.regions > 0 and facts.replays != 0
        self.counts["regions>=2"] += facts.regions > 1
        self.counts["mutated"] += facts.mutated
        self.counts["finite"] += facts.finite
        self.counts["aliased"] += any(entry.alias_of is not None for entry in program.inputs)
        if verdict.status == "incomparable":
            reason = verdict.evidence.split(":")[0][:80]
            self.counts[f"incomparable: {reason}"] += 1
        if facts.base_fault:
            self.counts["base fault"] += 1
            if len(self.outcome.base_faults) < 3:
                source = render_source(resolve_program(program))
                self.outcome.base_faults.append(f"{facts.base_fault}\n{source}")

    def _fail(self, program: Program, verdict: Verdict) -> None:
        """Count a known failure; reduce, write and record a new one."""
        kinds = {step.op for step in program.steps}
        for position, known in enumerate(self.outcome.failures):
            if known.invariant == verdict.invariant and kinds.issuperset(known.kinds):
                self.outcome.failures[position] = msgspec.structs.replace(known, count=known.count + 1)
                return
        same = sum(failure.invariant == verdict.invariant for failure in self.outcome.failures)
        enough = same >= MAX_PER_INVARIANT or len(self.outcome.failures) >= MAX_FAILURES
        # A failure half reduced helps nobody: without the time for it, it is only counted, the first one excepted.
        if enough or (self.outcome.failures and self._reducing_time() < LEAST_REDUCING["direct"]):
            self.counts["failures not looked into"] += 1
            return
        seconds = time.monotonic() - self.started
        self._record(program, verdict.invariant, seconds)

    def _record(self, program: Program, invariant: str, seconds: float) -> None:
        def fails(candidate: Program) -> bool:
            verdict = self.property.judge(candidate, self.target, self.device)
            return verdict.status == "fail" and verdict.invariant == invariant

        def fails_directly(candidate: Program) -> bool:
            verdict = check(candidate, None, self.target, self.device, form=choose_form(candidate), eager=False)
            return verdict.status == "fail" and verdict.invariant == invariant

        small = program
        if self.property.reproduce == "jit" and fails_directly(program):
            # The direct path is several times faster; what it finds has to hold through thunder.jit as well.
            quick = reduce_program(program, fails_directly, seconds=LEAST_REDUCING["direct"])
            small = quick if fails(quick) else program
        small = reduce_program(small, fails, seconds=LEAST_REDUCING[self.property.reproduce])
        verdict = self.property.judge(small, self.target, self.device)
        kinds = tuple(dict.fromkeys(step.op for step in small.steps))
        for known in self.outcome.failures:
            if (known.invariant, known.kinds) == (invariant, kinds):
                return
        small = msgspec.structs.replace(small, why=f"{invariant} with target {self.target.name}: {verdict.evidence}")
        key = failure_key(small, invariant)
        script = write_failure(self.folder, key, small, self._script(small, verdict))
        source = render_source(resolve_program(small))
        failure = Failure(key, invariant, kinds, verdict.evidence, source, str(script), round(seconds, 1))
        self.outcome.failures.append(failure)

    def _reducing_time(self) -> float:
        """Return the seconds left for reductions; a shard full of failures has to end too."""
        now = time.monotonic()
        left = MAX_REDUCING - (now - self.started - self.outcome.seconds)
        if self.deadline is not None:
            left = min(left, self.deadline - now)
        return left

    def _script(self, program: Program, verdict: Verdict) -> str:
        """Return a reproducer: around thunder.jit if the failure shows there too, else around a trace built directly.

        `thunder.jit` removes what no output needs, so a second try returns every value.
        """
        everything = tuple(range(len(resolve_program(program).types)))
        for variant in (program, msgspec.structs.replace(program, outputs=everything)):
            shown = verdict
            if self.property.reproduce == "direct":
                shown = check(variant, None, self.target, self.device, path="jit", eager=False)
            if (shown.status, shown.invariant) == (verdict.status, verdict.invariant):
                return self._render(variant, shown, "jit")
        return self._render(program, verdict, "direct")

    def _render(self, program: Program, verdict: Verdict, path: Path) -> str:
        evidence, form = verdict.evidence, choose_form(program)
        return render_reproducer(program, verdict.invariant, verdict.call, evidence, self.target, path=path, form=form)


def derive_seed(*parts: object) -> int:
    """Return a seed that depends on all of `parts` and on nothing else."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big")


def failure_key(program: Program, invariant: str) -> str:
    """Return the name of a failure: invariant, guilty operations, hash of the reduced program."""
    plain = encode_program(msgspec.structs.replace(program, why=""))
    kinds = "-".join(dict.fromkeys(step.op.strip("_") for step in program.steps)) or "no-ops"
    return f"{invariant}-{kinds[:60]}-{hashlib.sha256(plain.encode()).hexdigest()[:8]}"
