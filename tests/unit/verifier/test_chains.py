"""Several corruptions of one rewrite at once do not hide each other."""

from __future__ import annotations

from cgverify.api import CUDAGraphTransform
from cgverify.fuzzing.mutators import MUTATORS, Mutator
from cgverify.fuzzing.program import Program
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import apply_transform, forget_sources
from cgverify.fuzzing.strategies import programs
from cgverify.fuzzing.tracing import build_trace
from cgverify.verifier import verify

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PLAIN = [mutator for mutator in MUTATORS if mutator.contract is None]


@settings(max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(history=False), st.lists(st.sampled_from(PLAIN), min_size=2, max_size=3, unique=True))
def test_chained_corruptions_are_rejected(program: Program, chain: list[Mutator]) -> None:
    """What is left after two or three mutators in a row is not proved, and verifying it raises nothing."""
    try:
        before = build_trace(resolve_program(program))
    except Exception:  # Thunder's own checks refuse some programs
        return
    after = apply_transform(CUDAGraphTransform(verify=False), before)
    applied = []
    for mutator in chain:
        corrupted = mutator.apply(before, after)
        if corrupted is not None:
            after = corrupted
            applied.append(mutator.name)
    forget_sources()
    assert not applied or not verify(before, after).ok, applied
