"""Every planted fault is caught: by the verifier where the trace shows it, and by running programs where it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from cgverify import CUDAGraphTransform, verify
from cgverify.fuzzing.mutants import MUTANTS, Mutant, capturing, emitting, ordering
from cgverify.fuzzing.mutants.base import planted
from cgverify.fuzzing.targets import TargetError, find_target
from tests.builders import TraceBuilder
from tests.faults.table import FAULTS

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


def two_results() -> TraceCtx:
    """Two results of one kind, of two arguments of one kind."""
    build = TraceBuilder("x", "y")
    return build.done(build.op("sub", build["x"], build["y"]), build.op("mul", build["x"], 2.0))


def write_between() -> TraceCtx:
    """A read, a write, and a read, of one memory under several names."""
    build = TraceBuilder("x", "y")
    before = build.op("reshape", build["x"], (16,))
    first = build.op("exp", before)
    build.op("copy_", build.op("sin", build["y"]), build["x"], grad_enabled=False)
    return build.done(first, build.op("cos", before))


SHOWN: dict[type[Mutant], Callable[[], TraceCtx]] = {
    capturing.CapturedItem: item_between,
    capturing.CapturedHostTensor: host_tensor,
    emitting.DeletedBeforeReturn: chain,
    emitting.DeletedAfterFirstUse: chain,
    emitting.DeletedTwice: chain,
    emitting.DroppedOutput: chain,
    emitting.MissingInput: chain,
    emitting.ReversedBody: chain,
    emitting.LateBoundary: chain,
    emitting.SwappedArguments: two_results,
    emitting.SwappedOutputs: two_results,
    emitting.AnotherNumber: two_results,
    emitting.DroppedWrite: write,
    emitting.ForgottenWrite: write,
    ordering.HiddenWrite: write,
    ordering.ReadMovedPastWrite: read_then_write,
    ordering.WriteMovedPastRead: write_between,
    ordering.ReadMovedBeforeWrite: write_between,
    ordering.LentResult: chain,
}
"""Programs that show a fault; `cgverify mutants` looks for the others in random ones."""


@pytest.mark.parametrize("mutant", list(SHOWN), ids=[mutant.__name__ for mutant in SHOWN])
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


def test_every_group_of_faults_that_can_be_planted_has_mutants() -> None:
    """At least sixty mutants, named apart, say what they do and which kinds of fault they stand for, of all groups."""
    assert len(MUTANTS) >= 60
    assert len({mutant.__name__ for mutant in MUTANTS}) == len(MUTANTS)
    assert all(mutant.__doc__ for mutant in MUTANTS)
    assert all(bool(mutant.code) is (mutant.shows == "static") for mutant in MUTANTS)
    kinds = {kind for mutant in MUTANTS for kind in mutant.faults}
    assert kinds <= {fault.id for fault in FAULTS}
    assert {kind[0] for kind in kinds} >= set("ABCDEFGHR")


def test_a_mutant_is_a_target_by_its_name() -> None:
    """The package gives each mutant by name, and one line for a name that is none."""
    assert find_target("cgverify.fuzzing.mutants:StaleInput").make is not None
    with pytest.raises(TargetError, match="has no 'NoSuchMutant'"):
        find_target("cgverify.fuzzing.mutants:NoSuchMutant")


def test_what_a_mutant_replaces_exists_and_comes_back() -> None:
    """Every name that a mutant replaces is there, and is the right one again afterwards."""
    for mutant in MUTANTS:
        plants = (*mutant.in_rewrite, *mutant.in_call)
        right = [getattr(target, name) for target, name, _ in plants]
        with planted(plants):
            assert [getattr(target, name) for target, name, _ in plants] != right or not plants
        assert [getattr(target, name) for target, name, _ in plants] == right


def test_what_a_mutant_puts_in_place_is_called_like_what_was_there() -> None:
    """A stand-in takes as many arguments as the right function, so that a mutant shows its fault and no TypeError."""
    for mutant in MUTANTS:
        for target, name, wrong in (*mutant.in_rewrite, *mutant.in_call):
            right = getattr(target, name)
            if inspect.isfunction(right) and inspect.isfunction(wrong):
                taken = inspect.signature(right).parameters.values()
                named = {p.name: None for p in taken if p.kind is p.KEYWORD_ONLY}
                given = [None for p in taken if p.kind is p.POSITIONAL_OR_KEYWORD]
                inspect.signature(wrong).bind(*given, **named)
