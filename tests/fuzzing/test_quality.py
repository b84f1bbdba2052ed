"""The fuzzer finds planted faults: a share of the mutants, each caught within a few hundred programs and made small.

`cgverify mutants` hunts all of them.
"""

from __future__ import annotations

from cgverify import hunting
from cgverify.fuzzing.mutants import MUTANTS
from cgverify.fuzzing.oracles import check
from cgverify.fuzzing.targets import find_target
from cgverify.hunting import Effort, Hunt, draw_batch, hunt_all, hunt_mutant

import pytest

QUICK = (
    "CopiedTooLate",
    "EveryInputInPlace",
    "FrozenResults",
    "HiddenWrite",
    "LateBoundary",
    "ReusedResult",
    "StaleInput",
)
"""Mutants that almost any program gives away."""


@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_is_caught_by_running_and_made_small(name: str) -> None:
    """Making the calls of few programs shows the fault, and what is left of the program is a few operations."""
    hunt = hunt_mutant(name, Effort(programs=100), "emulated")
    assert hunt.ok
    assert hunt.invariant
    assert hunt.size is not None
    assert hunt.size <= 4, hunt.source


def test_a_hunt_is_the_same_in_other_processes() -> None:
    """Programs and findings do not depend on how many processes hunt, and no program runs if that is not asked for."""
    effort = Effort(programs=3, running=False)
    alone = hunt_all(effort)
    told: list[Hunt] = []
    assert hunt_all(effort, jobs=2, tell=told.append) == alone
    assert {hunt.name for hunt in told} == {hunt.name for hunt in alone}
    assert all(hunt.shows == "static" and not hunt.programs for hunt in alone)


def test_a_mutant_that_ends_its_process_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where processes die of a mutant, it is caught as a crash, or in traces where it shows; the others are hunted."""
    found = {mutant.__name__: Hunt(mutant.__name__, ("A01",), "emulated", True, "CG101") for mutant in MUTANTS}
    dead = [next(mutant.__name__ for mutant in MUTANTS if mutant.shows == shows) for shows in ("emulated", "static")]
    monkeypatch.setattr(
        hunting, "call_each", lambda function, names, jobs: ((n, None if n in dead else found[n]) for n in names)
    )
    hunts = {hunt.name: hunt for hunt in hunt_all(Effort(), "emulated", jobs=2)}
    assert [(hunts[name].invariant, hunts[name].ok) for name in dead] == [("crash", True)] * 2
    assert [bool(hunts[name].rejected) for name in dead] == [False, True]
    assert {name: hunt for name, hunt in hunts.items() if name not in dead} == {
        name: hunt for name, hunt in found.items() if name not in dead
    }


def test_the_unbroken_transform_is_not_caught() -> None:
    """The same programs find nothing in the transform that the mutants are made from."""
    target = find_target("cgverify")
    for program in draw_batch(50, 3, 0, gradients=False):
        assert check(program, None, target, "emulated", eager=False).status != "fail"
