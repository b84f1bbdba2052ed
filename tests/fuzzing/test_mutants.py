"""Every planted fault is caught: by the verifier where the trace shows it, and by running programs where it runs."""

from __future__ import annotations

from collections.abc import Callable

from cgverify import CUDAGraphTransform, verify
from cgverify.fuzzing import mutants
from cgverify.fuzzing.mutants import MUTANTS, Mutant
from tests.builders import TraceBuilder

import pytest
from thunder.core.trace import TraceCtx


def item_between() -> TraceCtx:
    """An `item` in the middle, and work around it."""
    build = TraceBuilder("x")
    number = build.op("item", build.op("sum", build["x"], None, False, dtype=None))
    return build.done(build.op("exp", build["x"]), number)


def host_tensor() -> TraceCtx:
    """One op on the device, one on the host."""
    build = TraceBuilder("x", "h:cpu")
    return build.done(build.op("exp", build["x"]), build.op("exp", build["h"]))


def chain() -> TraceCtx:
    """A value used twice."""
    build = TraceBuilder("x", "y")
    a = build.op("add", build["x"], build["y"])
    return build.done(build.op("mul", build.op("exp", a), a))


def write() -> TraceCtx:
    """A write to an input."""
    build = TraceBuilder("x", "y")
    return build.done(build.op("copy_", build.op("exp", build["y"]), build["x"], grad_enabled=False))


def read_then_write() -> TraceCtx:
    """The host reads x through a view; then x is overwritten."""
    build = TraceBuilder("x", "y")
    view = build.op("__getitem__", build.op("reshape", build["x"], (16,)), 0)
    number = build.op("item", view)
    build.op("copy_", build.op("exp", build["y"]), build["x"], grad_enabled=False)
    return build.done(number)


SHOWN: dict[type[Mutant], Callable[[], TraceCtx]] = {
    mutants.CapturedItem: item_between,
    mutants.CapturedHostTensor: host_tensor,
    mutants.DeletedBeforeReturn: chain,
    mutants.DeletedAfterFirstUse: chain,
    mutants.ForgottenWrite: write,
    mutants.ReadMovedPastWrite: read_then_write,
}


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.shows == "static"], ids=lambda m: m.__name__)
def test_the_verifier_rejects_a_static_fault_by_its_code(mutant: type[Mutant]) -> None:
    """The rewrite of a program that shows the fault is rejected, with the mutant's code among the findings."""
    before = SHOWN[mutant]()
    report = verify(before, mutant().rewrite(before))
    assert not report.ok
    assert mutant.code in report.codes, report.render()


@pytest.mark.parametrize("make", sorted(set(SHOWN.values()), key=lambda f: f.__name__), ids=lambda f: f.__name__)
def test_the_same_programs_are_proved_without_the_fault(make: Callable[[], TraceCtx]) -> None:
    """What the verifier rejects is the fault, not the program."""
    before = make()
    after = CUDAGraphTransform(verify=False).rewrite(before)
    assert verify(before, after).ok


def test_there_are_at_least_fifteen_faults_with_a_code_where_they_show() -> None:
    """Mutants are many, named apart, and a static one carries a code."""
    assert len(MUTANTS) >= 15
    assert len({mutant.__name__ for mutant in MUTANTS}) == len(MUTANTS)
    assert all(bool(mutant.code) is (mutant.shows == "static") for mutant in MUTANTS)
