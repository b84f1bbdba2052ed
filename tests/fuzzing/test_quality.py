"""The fuzzer finds planted faults: every broken transform is caught within a few hundred programs."""

from __future__ import annotations

from functools import lru_cache

from cgverify.fuzzing.mutants import MUTANTS, Mutant
from cgverify.fuzzing.oracles import check
from cgverify.fuzzing.program import Program
from cgverify.fuzzing.strategies import programs
from cgverify.fuzzing.targets import find_target

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

ENOUGH = 400
RUNNABLE = [mutant for mutant in MUTANTS if mutant.shows != "gpu"]


@lru_cache(maxsize=1)
def drawn() -> list[Program]:
    """The same programs for every mutant."""
    found: list[Program] = []

    @seed(3)
    @settings(
        max_examples=ENOUGH,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(program=programs())
    def collect(program: Program) -> None:
        found.append(program)

    collect()
    return found


@pytest.mark.parametrize("mutant", RUNNABLE, ids=lambda mutant: mutant.__name__)
def test_mutant_is_caught_by_running(mutant: type[Mutant]) -> None:
    """Making the calls shows the fault, whether or not the trace shows it to the verifier too."""
    target = find_target(f"{mutant.__module__}:{mutant.__name__}")
    assert any(check(program, None, target, "emulated", eager=False).status == "fail" for program in drawn())


def test_the_unbroken_transform_is_not_caught() -> None:
    """The same programs find nothing in the transform that the mutants are made from."""
    target = find_target("cgverify")
    for program in drawn()[:100]:
        assert check(program, None, target, "emulated", eager=False).status != "fail"
