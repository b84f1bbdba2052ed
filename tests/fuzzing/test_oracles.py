"""The oracles: right transforms pass, each kind of wrong one is told by its invariant, and nothing passes silently."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from cgverify.fuzzing.comparison import compare_records
from cgverify.fuzzing.execution import CallRecord, Record
from cgverify.fuzzing.invariants import INVARIANTS, Broken
from cgverify.fuzzing.oracles import Verdict, assert_holds, check, check_structure
from cgverify.fuzzing.program import Call, Draw, Input, Program, Step
from cgverify.fuzzing.snapshots import relate, take_snapshots
from cgverify.fuzzing.targets import Target, TargetError, find_target
from tests.fuzzing.programs_by_name import PROGRAMS

import msgspec
import pytest
import torch
from thunder.core.prims import PrimIDs
from thunder.core.trace import TraceCtx, from_trace
from thunder.core.transform_common import Transform

CGVERIFY = find_target("cgverify")
THUNDER = find_target("thunder")
NONE = find_target("none")


def target(change: Callable[[TraceCtx], TraceCtx]) -> Target:
    """A target that changes every trace in one way."""

    class Change(Transform):
        def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
            return change(computation_trace)

    return Target("test", "", "", Change)


@pytest.mark.parametrize("path", ["direct", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_cgverify_holds(name: str, path: Any) -> None:
    """Our transform holds every invariant on the sample programs, on both paths, and captures something."""
    verdict = check(PROGRAMS[name], None, CGVERIFY, "emulated", path=path)
    assert (verdict.status, verdict.evidence) == ("ok", "")
    assert verdict.facts.regions
    assert verdict.facts.replays
    assert verdict.facts.base_fault == ""


@pytest.mark.parametrize("name", PROGRAMS)
def test_thunder_without_graphs_equals_eager(name: str) -> None:
    """The three renderings of a program agree: eager source, thunder.jit, directly built trace."""
    for path in ("direct", "jit"):
        verdict = check(PROGRAMS[name], None, NONE, "emulated", path=path)  # type: ignore[arg-type]
        assert (verdict.status, verdict.evidence) == ("ok", "")


@pytest.mark.parametrize(
    ("name", "invariant"),
    [
        ("write", "lost-write"),
        ("item", "unexpected-error"),
        ("held", "held-result-changed"),
        ("dropout", "wrong-result"),
    ],
)
def test_thunder_breaks(name: str, invariant: str) -> None:
    """Thunder's own transform breaks the invariants that its known faults concern."""
    verdict = check(PROGRAMS[name], None, THUNDER, "emulated")
    assert (verdict.status, verdict.invariant) == ("fail", invariant)
    with pytest.raises(INVARIANTS[invariant]):
        assert_holds(verdict)


def test_two_forwards_then_backward() -> None:
    """Backward of a first forward after a second forward is compared; with Thunder's transform it goes wrong."""
    verdict = check(PROGRAMS["trained"], None, THUNDER, "emulated", path="jit")
    assert verdict.status == "fail"
    assert verdict.invariant in ("wrong-gradient", "held-result-changed", "unexpected-error")


def _without_first(symbol: object) -> Callable[[TraceCtx], TraceCtx]:
    def change(trace: TraceCtx) -> TraceCtx:
        new = from_trace(trace)
        position = next(n for n, bsym in enumerate(trace.bound_symbols) if bsym.sym.id == symbol)
        new.bound_symbols = [bsym for n, bsym in enumerate(trace.bound_symbols) if n != position]
        return new

    return change


def _with_early_del(trace: TraceCtx) -> TraceCtx:
    new = from_trace(trace)
    dels = [bsym for bsym in trace.bound_symbols if bsym.sym.id == PrimIDs.DEL]
    rest = [bsym for bsym in trace.bound_symbols if bsym.sym.id != PrimIDs.DEL]
    new.bound_symbols = [*rest[:2], dels[0], *rest[2:]]
    return new


def test_structure_of_the_original() -> None:
    """A transform that changes nothing has no structural fault, and neither has ours."""
    for program in PROGRAMS.values():
        assert check_structure(program, target(lambda trace: trace)).status == "ok"
        assert check_structure(program, CGVERIFY).status == "ok"
        assert check_structure(program, CGVERIFY, path="jit").status == "ok"


@pytest.mark.parametrize(
    ("change", "evidence"),
    [(_without_first("add"), "is not defined"), (_with_early_del, "is used after its del")],
)
def test_structure_faults(change: Callable[[TraceCtx], TraceCtx], evidence: str) -> None:
    """A missing definition and a use after del are found in the text, without running it."""
    verdict = check_structure(PROGRAMS["double"], target(change))
    assert (verdict.status, verdict.invariant, verdict.tier) == ("fail", "broken-structure", "static")
    assert evidence in verdict.evidence


def test_transform_that_raises() -> None:
    """An exception inside the transform is a failure of its own, not of the check."""

    def change(trace: TraceCtx) -> TraceCtx:
        raise KeyError("no such op")

    verdict = check(PROGRAMS["double"], None, target(change), "emulated")
    assert (verdict.invariant, verdict.evidence) == ("transform-failed", "KeyError: 'no such op'")


@pytest.mark.parametrize(
    ("break_it", "evidence"),
    [
        (lambda: torch.set_default_dtype(torch.float64), "the default dtype: torch.float64 instead of torch.float32"),
        (lambda: torch.set_grad_enabled(False), "autograd is on: False instead of True"),
        (lambda: torch.set_autocast_enabled("cuda", True), "autocast is on: True instead of False"),
        (lambda: torch.cuda.set_stream(torch.cuda.Stream()), "the current stream: "),
        (lambda: torch.use_deterministic_algorithms(True), "determinism is asked for: True instead of False"),
    ],
)
def test_settings_that_a_target_leaves_changed(break_it: Callable[[], object], evidence: str) -> None:
    """A target that leaves the process with other settings fails, and what is judged next finds the old ones."""

    def change(trace: TraceCtx) -> TraceCtx:
        break_it()
        return trace

    verdict = check(PROGRAMS["double"], None, target(change), "emulated")
    assert (verdict.status, verdict.invariant) == ("fail", "process-damaged")
    assert verdict.evidence.startswith(f"afterwards, {evidence}")
    assert check(PROGRAMS["double"], None, CGVERIFY, "emulated").status == "ok"


def test_a_target_that_disturbs_the_reference_is_to_blame() -> None:
    """A wrong result counts, though the un-graphed function would give it too after what the target has done."""

    def change(trace: TraceCtx) -> TraceCtx:
        torch.set_default_dtype(torch.float64)
        return trace

    program = Program(inputs=PROGRAMS["double"].inputs, steps=(Step("constant"),), outputs=(-1,))
    verdict = check(program, None, target(change), "emulated", path="jit")
    assert (verdict.status, verdict.invariant) == ("fail", "wrong-metadata")


def _fail_in_a_capture() -> None:
    with contextlib.suppress(RuntimeError), torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.ones(1, device="cuda").item()


def test_a_caller_whose_own_work_fails_after_the_target_blames_it() -> None:
    """A target after which its caller cannot draw random numbers fails; the fuzzer itself goes on."""

    def change(trace: TraceCtx) -> TraceCtx:
        _fail_in_a_capture()
        return trace

    program = msgspec.structs.replace(PROGRAMS["double"], history=(Call((1,)), Draw(), Call((2,))))
    verdict = check(program, None, target(change), "emulated", eager=False)
    assert (verdict.status, verdict.invariant) == ("fail", "process-damaged")
    assert verdict.evidence.startswith("between calls, the caller meets RuntimeError: Offset increment outside graph")


def test_nothing_is_said_of_thunder_in_a_damaged_process() -> None:
    """Where the target's capture failed and left the generator unusable, eager PyTorch judges no more, and the failure
    counts.
    """
    read = Program(inputs=(Input(shape=()),), steps=(Step("item", (0,)),), history=(Call((1,)), Draw()))
    verdict = check(read, None, THUNDER, "emulated")
    assert (verdict.status, verdict.invariant) == ("fail", "unexpected-error")
    assert (verdict.facts.base_tier, verdict.facts.base_fault) == ("", "")


def record(value: torch.Tensor, **changes: Any) -> Record:
    """The record of one call that returned `value`."""
    call = CallRecord(take_snapshots([value]), [], {}, (b"0", b"0"))
    for name, change in changes.items():
        setattr(call, name, change)
    return Record([call], [], [(0, 0, take_snapshots([value])[0])])


@pytest.mark.parametrize(
    ("one", "other", "invariant"),
    [
        (torch.tensor([0.0]), torch.tensor([-0.0]), "wrong-result"),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]).neg(), "wrong-result"),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64), "wrong-metadata"),
        (torch.ones(2, 3), torch.ones(3, 2).t(), "wrong-metadata"),
        (torch.ones(2), torch.ones(2, requires_grad=True), "wrong-metadata"),
    ],
)
def test_bits_and_metadata(one: torch.Tensor, other: torch.Tensor, invariant: str) -> None:
    """Zeros of both signs, NaNs of both signs, dtypes, strides and requires_grad are told apart."""
    assert next(compare_records(record(one), record(one)), None) is None
    difference = next(compare_records(record(one), record(other)), None)
    assert difference is not None
    assert difference.invariant.name == invariant


def test_generator_and_aliasing() -> None:
    """Another generator position and other shared memory are differences of their own."""
    value = torch.ones(2)
    moved = next(compare_records(record(value), record(value, generators=(b"0", b"1"))))
    shared = next(compare_records(record(value), record(value, relations={(0, 1): 0})))
    assert (moved.invariant.name, shared.invariant.name) == ("wrong-generator", "wrong-aliasing")


@pytest.mark.parametrize(
    ("expected", "found", "invariant"),
    [
        ("", "KeyError: 'a'", "unexpected-error"),
        ("KeyError: 'a'", "", "missing-error"),
        ("KeyError: 'a'", "ValueError: 'a'", "wrong-error"),
        ("ValueError: too few", "ValueError: too many", "wrong-error"),
        ("ValueError: t12 at 0x7f", "ValueError: t3 at 0x80", None),
    ],
)
def test_errors_are_compared(expected: str, found: str, invariant: str | None) -> None:
    """Two calls that raise are equal only if they raise the same; addresses and numbers of names do not count."""
    value = torch.ones(2)
    difference = next(compare_records(record(value, error=expected), record(value, error=found)), None)
    assert (difference.invariant.name if difference else None) == invariant


def test_gradients_before_an_error_are_compared() -> None:
    """That both sides raise the same in a later call does not hide a wrong gradient of an earlier one."""
    value = torch.ones(2)
    one, other = record(value), record(value)
    for side, gradient in ((one, value), (other, 2 * value)):
        side.calls.append(CallRecord(error="ValueError: no"))
        side.gradients = [(0, take_snapshots([gradient]))]
    difference = next(compare_records(one, other), None)
    assert difference is not None
    assert (difference.invariant.name, difference.call) == ("wrong-gradient", 0)


def test_what_one_side_does_not_have_is_a_difference() -> None:
    """A call, a backward or a held result that only one side has is reported, and so is another order of backwards."""
    value = torch.ones(2)
    seen = take_snapshots([value])
    whole = record(value)
    whole.gradients = [(0, seen), (1, seen)]
    swapped = record(value)
    swapped.gradients = [(1, seen), (0, seen)]
    fewer_calls, nothing_held, no_gradient = record(value), record(value), record(value)
    fewer_calls.calls, nothing_held.held = [], []
    nothing_held.gradients = whole.gradients
    for one, other, invariant in (
        (whole, fewer_calls, "unexpected-error"),
        (fewer_calls, whole, "missing-error"),
        (whole, no_gradient, "wrong-gradient"),
        (whole, swapped, "wrong-gradient"),
        (whole, nothing_held, "wrong-metadata"),
    ):
        difference = next(compare_records(one, other), None)
        assert difference is not None
        assert difference.invariant.name == invariant


def test_inputs_that_change_shape_are_a_difference() -> None:
    """What a call does to the layout of its inputs counts, not only to their contents."""
    base = record(torch.ones(2), inputs=take_snapshots([torch.ones(2, 3)]))
    turned = record(torch.ones(2), inputs=take_snapshots([torch.ones(3, 2).t()]))
    difference = next(compare_records(base, turned), None)
    assert difference is not None
    assert (difference.invariant.name, difference.place) == ("wrong-metadata", 0)


def test_relate() -> None:
    """Views overlap at their offsets; separate tensors do not."""
    base = torch.zeros(6)
    assert relate([base, base[2:4], torch.zeros(6), None, 3.0]) == {(0, 1): 8}


def test_every_invariant_has_its_own_class() -> None:
    """Hypothesis tells failures apart by exception type, so each invariant has one."""
    assert len(set(INVARIANTS.values())) == len(INVARIANTS) >= 14
    assert all(issubclass(kind, Broken) and kind.name == name for name, kind in INVARIANTS.items())
    assert_holds(Verdict("ok"))
    assert_holds(Verdict("incomparable"))


@pytest.mark.parametrize("name", ["cgverfy", "nosuch.module:Transform", "cgverify:nothing", ":", "a:"])
def test_unknown_target(name: str) -> None:
    """An unknown target is refused with one line that names it and the remedy."""
    with pytest.raises(TargetError) as caught:
        find_target(name)
    assert repr(name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_target_that_is_no_transform() -> None:
    """Naming something that is no transform is refused when it is made."""
    made = find_target("collections:OrderedDict").make
    assert made is not None
    with pytest.raises(TargetError, match="OrderedDict"):
        made()
