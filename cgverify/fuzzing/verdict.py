"""The answer on one program, and how a test raises it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cgverify.fuzzing.invariants import INVARIANTS

Status = Literal["ok", "fail", "incomparable"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a program turned out to do; a run in which too little happens proves little.

    Attributes:
        regions: CUDA-graph regions in the transformed traces.
        replays: graph replays, None where the device cannot tell.
        mutated: whether the program writes in place.
        finite: whether at least half of the floating-point results' elements were finite.
        base_tier: what judged Thunder without graphs against eager, empty if they were not compared.
        base_fault: how the two differ, empty if they do not.
    """

    regions: int = 0
    replays: int | None = None
    mutated: bool = False
    finite: bool = True
    base_tier: str = ""
    base_fault: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer on one program.

    Attributes:
        status: `ok`, `fail` or `incomparable`.
        invariant: name of the broken invariant, empty unless it fails.
        call: number of the call that shows it, from 0; None where no call does.
        evidence: both sides in words, or why it is incomparable.
        tier: what judged it: `T1`, `T2`, `T3`, or `static` where nothing ran.
        facts: what the program did.
    """

    status: Status
    invariant: str = ""
    call: int | None = None
    evidence: str = ""
    tier: str = "T1"
    facts: Facts = field(default_factory=Facts)


def assert_holds(verdict: Verdict) -> None:
    """Raise the exception class of the broken invariant if the verdict is `fail`."""
    if verdict.status == "fail":
        where = "" if verdict.call is None else f" in call {verdict.call}"
        raise INVARIANTS[verdict.invariant](f"{verdict.invariant}{where}: {verdict.evidence}")
