"""Where programs are judged: in this process, or in a child that may die of them.

`Isolated` keeps one warm child (see :mod:`.template`). A program that ends it, keeps it longer than the time limit, or
leaves its device unusable costs a child and nothing else. What ended a child is judged again in a fresh one: if that
one survives, the program is not to blame, and its verdict counts; if it dies too, the same program without the target
tells whose doing it is. So a crash and a hang are verdicts like any other, and shrink like any other.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Protocol

from cgverify.fuzzing.child_messages import Request
from cgverify.fuzzing.children import Child, Ended, ExecutorError, Template
from cgverify.fuzzing.devices import DeviceName
from cgverify.fuzzing.invariants import OutOfMemory
from cgverify.fuzzing.program import Program, encode_program
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.targets import Target
from cgverify.fuzzing.verdict import Facts, Verdict

LIMIT = 120.0
"""Seconds that one program may take; most take a thousandth of that."""

PROGRAMS = 5000
"""Programs after which a child is replaced, so that what PyTorch and Thunder keep of each stays bounded."""

KILLED = 4
"""Times that a program is judged again whose child somebody kills; otherwise dying twice is enough."""

MEMORY = "OutOfMemoryError"
"""What PyTorch raises when the memory of a device runs out, as it stands in the evidence."""


class Executor(Protocol):
    """Judges programs for one target on one device."""

    lost: list[Lost]
    children: int

    def judge(self, property: str, program: Program, limit: float = LIMIT) -> Verdict:
        """Return the verdict of a property, by name, within `limit` seconds where that can be enforced."""

    def close(self) -> None:
        """Let go of what was started."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A child ended in the middle of a program that a fresh child survives.

    Attributes:
        property: what was being judged.
        program: the program.
        evidence: how the child ended.
        verdict: the verdict in the fresh child.
    """

    property: str
    program: Program
    evidence: str
    verdict: Verdict


def make_executor(isolation: str, target: Target, device: DeviceName) -> Executor:
    """Return what judges programs: `always` in a child, `never`, or `auto`: where the system can fork."""
    if isolation == "never" or (isolation == "auto" and not hasattr(os, "fork")):
        return InProcess(target, device)
    return Isolated(target.name, device).start()


@dataclass(slots=True)
class InProcess:
    """Judges in this process, which a program may take down."""

    target: Target
    device: DeviceName
    lost: list[Lost] = field(default_factory=list)
    children: int = 0

    def judge(self, property: str, program: Program, limit: float = LIMIT) -> Verdict:
        """Return the verdict; there is no limit in time."""
        return PROPERTIES[property].judge(program, self.target, self.device)

    def close(self) -> None:
        """There is nothing to let go of."""


class Isolated:
    """Judges in a child process.

    Attributes:
        lost: programs in the middle of which a child ended, although they are not to blame.
        children: how many children were started.
    """

    def __init__(self, target: str, device: DeviceName) -> None:
        self.lost: list[Lost] = []
        self.children = 0
        self._target = target
        self._device: DeviceName = device
        self._template = Template(device)
        self._child: Child | None = None

    def start(self) -> Isolated:
        """Start what the first program needs, without waiting for it; return this executor."""
        self._template.start()
        return self

    def judge(self, property: str, program: Program, limit: float = LIMIT) -> Verdict:
        """Return the verdict; a crash, a hang and memory run out are verdicts.

        Raises:
            ExecutorError: no child can be started, or judging itself raised.
        """
        verdict = self._ask(property, self._target, program, limit)
        if isinstance(verdict, Ended):
            return self._insist(property, program, verdict, limit)
        return self._find_memory(property, program, limit) if MEMORY in verdict.evidence else verdict

    def close(self) -> None:
        """End child and template."""
        self._replace()
        self._template.close()

    def _insist(self, property: str, program: Program, ended: Ended, limit: float) -> Verdict:
        """Judge a program that a child did not survive again, in fresh ones."""
        for _ in range(KILLED if ended.killed else 1):
            again = self._ask(property, self._target, program, limit)
            if isinstance(again, Verdict):
                self.lost.append(Lost(property, program, ended.evidence, again))
                return again
            ended = again
        return self._blame(property, program, ended, limit)

    def _find_memory(self, property: str, program: Program, limit: float) -> Verdict:
        """Judge a program that ran out of the device's memory again, in a child that has all of it."""
        self._replace()
        verdict = self._ask(property, self._target, program, limit)
        if isinstance(verdict, Ended):
            return self._blame(property, program, verdict, limit)
        if verdict.status == "fail" and MEMORY in verdict.evidence:
            return replace(verdict, invariant=OutOfMemory.name)
        return verdict

    def _blame(self, property: str, program: Program, ended: Ended, limit: float) -> Verdict:
        """Say whose doing it is that two children ended: Thunder's, if it happens without the target too."""
        if self._target != "none":
            without = "gradients" if PROPERTIES[property].reproduce == "jit" else "equivalence"
            base = self._ask(without, "none", program, limit)
            if isinstance(base, Ended):
                fault = f"without graphs too, {base.evidence}"
                return Verdict("incomparable", evidence=fault, facts=Facts(base_fault=fault))
        return Verdict("fail", ended.invariant, None, ended.evidence)

    def _ask(self, property: str, target: str, program: Program, limit: float) -> Verdict | Ended:
        if self._child is None or self._child.judged >= PROGRAMS:
            self._replace()
            self._child = self._template.fork()
            self.children += 1
        answer = self._child.ask(Request(property, target, self._device, encode_program(program)), limit)
        if isinstance(answer, Ended) or answer.damage:
            self._replace()
        if isinstance(answer, Ended):
            return answer
        if answer.verdict is None:
            raise ExecutorError(f"judging a program raised:\n{answer.error}")
        return answer.verdict

    def _replace(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
