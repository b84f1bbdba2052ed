"""What a shard does with a program that fails: counts it if it is known, else makes it small, writes and records it.

Failures are told apart by invariant and by the operations that the reduced program is left with, so one fault seen a
thousand times is reported once, with its count.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from cgverify.fuzzing.crash_script import DEADLY, UNTOLD, guard_script
from cgverify.fuzzing.executor import LIMIT, Executor
from cgverify.fuzzing.outcome import Failure
from cgverify.fuzzing.program import Program, encode_program
from cgverify.fuzzing.properties import Property, choose_form
from cgverify.fuzzing.reduce import reduce_program
from cgverify.fuzzing.rendering import render_source
from cgverify.fuzzing.reproducer import render_reproducer, write_failure
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import Path
from cgverify.fuzzing.targets import Target
from cgverify.fuzzing.verdict import Verdict

import msgspec

DIRECT, JIT = "equivalence", "gradients"
"""Properties that compare target and un-graphed function and nothing else, by path."""

HANG_LIMIT = 10.0
"""Seconds that one program may take while a hang is reduced."""

HANG_ATTEMPTS = 30
"""Candidates tried in one reduction of a hang: each that hangs takes three times the limit."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How far a shard goes into what fails.

    Attributes:
        failures: distinct failures that are reduced and written; what comes after is only counted.
        per_invariant: the same, for each invariant.
        attempts: candidates tried in one reduction.
        seconds: after how long reductions are cut short, all together; None for never, which is what makes two runs
            agree.
        direct: seconds that a reduction on the direct path gets at least, once begun; most need a tenth of that.
        jit: the same through `thunder.jit`.
    """

    failures: int = 8
    per_invariant: int = 3
    attempts: int = 600
    seconds: float | None = 40.0
    direct: float = 10.0
    jit: float = 40.0

    def least(self, path: Path) -> float:
        """Return the seconds of one reduction; practically for ever where time is no limit."""
        if self.seconds is None:
            return 1e9
        return self.jit if path == "jit" else self.direct


@dataclass
class Findings:
    """The failures of one shard of one property.

    Attributes:
        property: what is claimed.
        target: the transform under test.
        executor: judges programs.
        folder: where failures are written.
        effort: how far to go.
        failures: the distinct ones so far.
        spent: seconds spent on reductions.
    """

    property: Property
    target: Target
    executor: Executor
    folder: FilePath
    effort: Effort = field(default_factory=Effort)
    failures: list[Failure] = field(default_factory=list)
    spent: float = 0.0

    def add(self, program: Program, verdict: Verdict, counts: Counter[str], since: float, left: float | None) -> None:
        """Count a known failure; reduce, write and record a new one.

        Args:
            program: what fails.
            verdict: how.
            counts: where failures that are not looked into are counted.
            since: seconds since the shard began.
            left: seconds left to the shard, None for no limit.
        """
        kinds = {step.op for step in program.steps}
        for position, known in enumerate(self.failures):
            if known.invariant == verdict.invariant and kinds.issuperset(known.kinds):
                self._count(position)
                return
        same = sum(failure.invariant == verdict.invariant for failure in self.failures)
        enough = same >= self.effort.per_invariant or len(self.failures) >= self.effort.failures
        # A failure half reduced helps nobody: without the time for it, it is only counted, the first one excepted.
        if enough or (self.failures and self._is_short_of_time(left)):
            counts["failures not looked into"] += 1
            return
        begun = time.monotonic()
        self._record(program, verdict, since)
        self.spent += time.monotonic() - begun

    def give_up(self, program: Program, verdict: Verdict, since: float) -> None:
        """Write and record a failure as it is, without running it: that would end this process."""
        key = failure_key(program, verdict.invariant)
        if any(known.key == key for known in self.failures):
            return
        kinds = tuple(dict.fromkeys(step.op for step in program.steps))
        why = f"{verdict.invariant} with target {self.target.name}: {verdict.evidence}"
        script = write_failure(self.folder, key, msgspec.structs.replace(program, why=why), UNTOLD)
        evidence, source = verdict.evidence, repr(program)
        self.failures.append(Failure(key, verdict.invariant, kinds, evidence, source, str(script), round(since, 1)))

    def _count(self, position: int) -> None:
        known = self.failures[position]
        self.failures[position] = msgspec.structs.replace(known, count=known.count + 1)

    def _is_short_of_time(self, left: float | None) -> bool:
        if self.effort.seconds is None:
            return False
        own = self.effort.seconds - self.spent
        return min(own, own if left is None else left) < self.effort.direct

    def _record(self, program: Program, seen: Verdict, since: float) -> None:
        invariant = seen.invariant
        limit = HANG_LIMIT if invariant == "hang" else LIMIT

        def fails_as(property: str) -> Callable[[Program], bool]:
            def fails(candidate: Program) -> bool:
                verdict = self.executor.judge(property, candidate, limit)
                return verdict.status == "fail" and verdict.invariant == invariant

            return fails

        attempts = self.effort.attempts
        small = self._reduce(program, fails_as, min(attempts, HANG_ATTEMPTS) if invariant == "hang" else attempts)
        verdict = self.executor.judge(self.property.name, small, limit)
        if (verdict.status, verdict.invariant) != ("fail", invariant):
            small, verdict = program, seen  # it does not fail each time, so what was seen is all there is
        kinds = tuple(dict.fromkeys(step.op for step in small.steps))
        for position, known in enumerate(self.failures):
            if (known.invariant, known.kinds) == (invariant, kinds):
                self._count(position)
                return
        small = msgspec.structs.replace(small, why=f"{invariant} with target {self.target.name}: {verdict.evidence}")
        key = failure_key(small, invariant)
        script = write_failure(self.folder, key, small, self._script(small, verdict))
        source = render_source(resolve_program(small))
        self.failures.append(Failure(key, invariant, kinds, verdict.evidence, source, str(script), round(since, 1)))

    def _reduce(self, program: Program, fails_as: Callable[[str], Callable[[Program], bool]], attempts: int) -> Program:
        path = self.property.reproduce
        fails, small = fails_as(self.property.name), program
        if path == "jit" and fails_as(DIRECT)(program):
            # The direct path is several times faster; what it finds has to hold through thunder.jit as well.
            quick = reduce_program(program, fails_as(DIRECT), seconds=self.effort.least("direct"), attempts=attempts)
            small = quick if fails(quick) else program
        return reduce_program(small, fails, seconds=self.effort.least(path), attempts=attempts)

    def _script(self, program: Program, verdict: Verdict) -> str:
        """Return a reproducer: around thunder.jit if the failure shows there too, else around a trace built directly.

        `thunder.jit` removes what no output needs, so a second try returns every value.
        """
        everything = tuple(range(len(resolve_program(program).types)))
        for variant in (program, msgspec.structs.replace(program, outputs=everything)):
            shown = verdict
            if self.property.reproduce == "direct":
                shown = self.executor.judge(JIT, variant, HANG_LIMIT if verdict.invariant == "hang" else LIMIT)
            if (shown.status, shown.invariant) == (verdict.status, verdict.invariant):
                return self._render(variant, shown, "jit")
        return self._render(program, verdict, "direct")

    def _render(self, program: Program, verdict: Verdict, path: Path) -> str:
        evidence, form = verdict.evidence, choose_form(program)
        script = render_reproducer(
            program, verdict.invariant, verdict.call, evidence, self.target, path=path, form=form
        )
        return guard_script(script) if verdict.invariant in DEADLY else script


def failure_key(program: Program, invariant: str) -> str:
    """Return the name of a failure: invariant, guilty operations, hash of the reduced program."""
    plain = encode_program(msgspec.structs.replace(program, why=""))
    kinds = "-".join(dict.fromkeys(step.op.strip("_") for step in program.steps)) or "no-ops"
    return f"{invariant}-{kinds[:60]}-{hashlib.sha256(plain.encode()).hexdigest()[:8]}"
