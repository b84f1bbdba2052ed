"""The executor: what a program does to the process that runs it becomes a verdict, and the next program runs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from cgverify.fuzzing import children
from cgverify.fuzzing.children import Ended
from cgverify.fuzzing.executor import InProcess, Isolated
from cgverify.fuzzing.findings import HANG_ATTEMPTS, Effort, Findings
from cgverify.fuzzing.program import Input, Program, Step
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.targets import find_target
from cgverify.fuzzing.verdict import Facts, Verdict
from tests.fuzzing.programs_by_name import PROGRAMS

import pytest

ROOT = Path(__file__).parents[2]
TARGET = "tests.fuzzing.deadly:Deadly"
CRASH, HANG = Ended("crash", "dies"), Ended("hang", "does not answer")
KILLED = Ended("crash", "dies of SIGKILL", killed=True)
OK = Verdict("ok")
MEMORY = Verdict("fail", "unexpected-error", 1, "raises OutOfMemoryError: CUDA out of memory")


def one_op(name: str, *more: str) -> Program:
    """A program of unary operations, one after the other."""
    return Program(inputs=(Input(shape=(2,)),), steps=tuple(Step(op, (15,)) for op in (name, *more)), outputs=(-1,))


class Scripted(Isolated):
    """Gets the answers of its children from a list, by target."""

    def __init__(self, target: str, answers: list[Verdict | Ended], base: list[Verdict | Ended] | None = None) -> None:
        super().__init__(target, "emulated")
        self.answers, self.base = answers, base or []

    def _ask(self, property: str, target: str, program: Program, limit: float) -> Verdict | Ended:
        return (self.answers if target == self._target else self.base).pop(0)


@pytest.mark.parametrize(
    ("answers", "base", "expected"),
    [
        ([OK], [], OK),
        ([CRASH, CRASH], [OK], Verdict("fail", "crash", None, "dies")),
        ([HANG, HANG], [OK], Verdict("fail", "hang", None, "does not answer")),
        ([KILLED] * 5, [OK], Verdict("fail", "crash", None, "dies of SIGKILL")),
        ([MEMORY, MEMORY], [], Verdict("fail", "out-of-memory", 1, MEMORY.evidence)),
        ([MEMORY, OK], [], OK),
        ([MEMORY, CRASH], [OK], Verdict("fail", "crash", None, "dies")),
    ],
)
def test_verdicts(answers: list[Verdict | Ended], base: list[Verdict | Ended], expected: Verdict) -> None:
    """Dying twice, hanging twice and running out of memory twice are verdicts; once is not."""
    assert Scripted("cgverify", list(answers), list(base)).judge("equivalence", PROGRAMS["double"]) == expected


@pytest.mark.parametrize("answers", [[CRASH, OK], [KILLED, KILLED, KILLED, KILLED, OK], [HANG, OK]])
def test_a_child_that_dies_once(answers: list[Verdict | Ended]) -> None:
    """A program that a fresh child survives is not to blame: its verdict counts, and it is on record as run again."""
    executor = Scripted("cgverify", list(answers))
    assert executor.judge("equivalence", PROGRAMS["double"]) == OK
    assert [(lost.program, lost.verdict) for lost in executor.lost] == [(PROGRAMS["double"], OK)]


def test_base_crashes_are_told_apart() -> None:
    """A program that ends its process without the target too is a base fault, and no failure of the target."""
    verdict = Scripted("cgverify", [CRASH, CRASH], [CRASH]).judge("equivalence", PROGRAMS["double"])
    evidence = "without graphs too, dies"
    assert verdict == Verdict("incomparable", evidence=evidence, facts=Facts(base_fault=evidence))
    alone = Scripted("none", [CRASH, CRASH])
    assert alone.judge("equivalence", PROGRAMS["double"]).invariant == "crash"


@pytest.fixture(scope="module")
def deadly() -> Iterator[Isolated]:
    """An executor with a target that dies."""
    executor = Isolated(TARGET, "emulated")
    yield executor
    executor.close()


@pytest.mark.parametrize(("op", "signal_name"), [("sin", "SIGABRT"), ("cos", "SIGSEGV")])
def test_crash(deadly: Isolated, op: str, signal_name: str) -> None:
    """A crash names the signal and the Python line, and the next program runs as if nothing had been."""
    verdict = deadly.judge("structure", one_op(op))
    assert (verdict.status, verdict.invariant) == ("fail", "crash")
    assert signal_name in verdict.evidence
    assert ", line " in verdict.evidence
    assert deadly.judge("structure", one_op("relu")).status == "ok"


def test_hang(deadly: Isolated) -> None:
    """A program that does not end is given up at the time limit."""
    verdict = deadly.judge("structure", one_op("tanh"), limit=1.0)
    assert verdict.invariant == "hang"
    assert deadly.judge("structure", one_op("relu")).status == "ok"


def test_killed_child(deadly: Isolated) -> None:
    """A child that somebody kills between programs costs nothing but a child."""
    deadly.judge("structure", one_op("relu"))
    assert deadly._child is not None
    os.kill(deadly._child.pid, signal.SIGKILL)
    lost = len(deadly.lost)
    assert deadly.judge("structure", one_op("relu")).status == "ok"
    assert len(deadly.lost) == lost + 1


def test_killed_template(deadly: Isolated) -> None:
    """A template that somebody kills takes its child along, and another one starts."""
    assert deadly._template._running is not None
    deadly._template._running.process.kill()
    assert deadly.judge("structure", one_op("relu")).status == "ok"


def test_where_nothing_can_be_forked(deadly: Isolated) -> None:
    """A template that cannot be forked is the child itself, and the next one is started ahead of time."""
    deadly.close()
    template = deadly._template
    template._running = children._start("emulated")
    template._running.can_fork = False
    process = template._running.process
    assert deadly.judge("structure", one_op("relu")).status == "ok"
    assert deadly._child is not None
    assert deadly._child.pid == process.pid
    assert template._spare is not None
    verdict = deadly.judge("structure", one_op("sin"))
    assert process.returncode == -signal.SIGABRT
    assert "SIGABRT" in verdict.evidence


def test_a_crash_shrinks(deadly: Isolated, tmp_path: Path) -> None:
    """A crash is reduced like any other failure, and its script lives to report it."""
    findings = Findings(
        PROPERTIES["structure"], find_target(TARGET), deadly, tmp_path, Effort(seconds=None, attempts=60)
    )
    program = one_op("relu", "exp", "sin", "neg", "abs")
    findings.add(program, deadly.judge("structure", program), Counter(), 0.0, None)
    (failure,) = findings.failures
    assert (failure.invariant, failure.kinds) == ("crash", ("sin",))
    done = subprocess.run(
        [sys.executable, failure.script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "REPRODUCED: the process dies of signal 6" in done.stdout


def test_a_failure_that_does_not_last_is_recorded(tmp_path: Path) -> None:
    """A program that fails once and never again is written as it is, with what was seen."""
    executor = Scripted("cgverify", [OK] * 700)
    findings = Findings(PROPERTIES["equivalence"], find_target("cgverify"), executor, tmp_path, Effort(seconds=None))
    seen = Verdict("fail", "wrong-result", 0, "result 0 is 1 instead of 2")
    findings.add(PROGRAMS["double"], seen, Counter(), 0.0, None)
    (failure,) = findings.failures
    assert (failure.invariant, failure.evidence) == ("wrong-result", seen.evidence)
    assert seen.evidence in Path(failure.script).read_text(encoding="utf-8")


@dataclass(slots=True)
class Hanging(InProcess):
    """Says of every program of five steps that it hangs."""

    judged: int = 0

    def judge(self, property: str, program: Program, limit: float = 0.0) -> Verdict:
        """Count, and judge by the number of steps alone."""
        self.judged += 1
        return Verdict("fail", "hang", None, "does not answer") if len(program.steps) >= 5 else OK


def test_a_hang_is_not_reduced_for_hours(tmp_path: Path) -> None:
    """Where time is no limit, as in a campaign, a hang gets fewer attempts: each takes seconds."""
    target = find_target("cgverify")
    executor = Hanging(target, "emulated")
    findings = Findings(PROPERTIES["equivalence"], target, executor, tmp_path, Effort(seconds=None))
    program = one_op("relu", "exp", "sin", "neg", "abs")
    findings.add(program, executor.judge("equivalence", program), Counter(), 0.0, None)
    assert [failure.invariant for failure in findings.failures] == ["hang"]
    assert executor.judged < HANG_ATTEMPTS + 10


class Unkillable:
    """A process that no signal ends, as one that waits for a driver."""

    def kill(self) -> None:
        """Change nothing."""

    def wait(self, timeout: float) -> int:
        """Wait in vain, never without a limit."""
        raise subprocess.TimeoutExpired("template", timeout)


@pytest.mark.parametrize("can_fork", [True, False])
def test_closing_waits_for_nothing_for_ever(can_fork: bool) -> None:
    """A template that even a kill does not end is given up, and its log is closed."""
    control, theirs = socket.socketpair()
    with theirs:
        log = tempfile.TemporaryFile("a+b")  # noqa: SIM115
        children._Running(cast("subprocess.Popen[bytes]", Unkillable()), control, log, can_fork).close()
    assert log.closed


def test_same_verdicts_in_process(deadly: Isolated) -> None:
    """Where nothing dies, a child says what this process says."""
    here = InProcess(find_target(TARGET), "emulated")
    for program in (PROGRAMS["double"], PROGRAMS["write"]):
        assert deadly.judge("equivalence", program) == here.judge("equivalence", program)
