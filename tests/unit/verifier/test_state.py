"""Symbolic execution: equal numbers mean equal computations, and the state of memory and generators is part of them."""

from __future__ import annotations

from collections.abc import Callable

from cgverify.fuzzing import edits
from cgverify.ir import view_trace
from cgverify.verifier import verify
from cgverify.verifier.divergence import Cause, compare
from cgverify.verifier.state import State, run
from cgverify.verifier.subject import Subject
from cgverify.verifier.values import Numbers
from tests.builders import TraceBuilder
from tests.cases.build import chain, fuse, moved, without

import pytest
import torch
from thunder.core.proxies import TensorProxy
from thunder.core.trace import TraceCtx


def execute(trace: TraceCtx, numbers: Numbers | None = None) -> State:
    """The final state of one trace."""
    subject = Subject(view_trace(trace), view_trace(trace))
    return run(subject.after, subject.region_of, subject.facts, numbers or Numbers())


def causes(before: TraceCtx, after: TraceCtx) -> list[Cause]:
    """Why two traces differ."""
    numbers = Numbers()
    return [divergence.cause for divergence in compare(execute(before, numbers), execute(after, numbers))]


def test_equal_ops_have_equal_numbers() -> None:
    """Two equal ops on the same values have one number, and hold different objects."""
    b = TraceBuilder("x")
    one, other = b.op("exp", b["x"]), b.op("exp", b["x"])
    state = execute(b.done(one, other))
    assert state.values[one.name].number == state.values[other.name].number
    assert state.values[one.name].identity != state.values[other.name].identity
    assert state.values[one.name].roots != state.values[other.name].roots


def test_numbers_tell_types_apart() -> None:
    """1, 1.0 and True are other constants, and so are 0.0 and -0.0."""
    b = TraceBuilder("x")
    values = [b.op("mul", b["x"], constant) for constant in (1, 1.0, True, 0.0, -0.0, float("nan"), float("nan"))]
    numbers = [execute(b.done(*values)).values[value.name].number for value in values]
    assert len(set(numbers)) == len(values) - 1


def test_aliases_are_their_argument() -> None:
    """`update_aliases` and `copy_` return the very object; no step is recorded for the first."""
    b = TraceBuilder("x", "y")
    (alias,) = b.op("update_aliases", (b["x"],))
    written = b.op("copy_", b["y"], alias, grad_enabled=False)
    state = execute(b.done(written))
    assert len({state.values[name].identity for name in (alias.name, "x", written.name)}) == 1
    assert [state.values[name].born for name in ("x", alias.name, written.name)] == [0, 0, 1]
    assert [step.op.name for step in state.steps] == ["copy_"]


def test_a_write_changes_what_is_read() -> None:
    """The same op reads another state before and after a write to memory it may share."""
    b = TraceBuilder("x", "y")
    before_write = b.op("exp", b["x"])
    b.op("copy_", b["y"], b["x"], grad_enabled=False)
    after_write = b.op("exp", b["x"])
    state = execute(b.done(before_write, after_write))
    assert state.values[before_write.name].number != state.values[after_write.name].number
    assert state.steps[-1].operands[0].versions != ()


def test_a_write_to_fresh_memory_leaves_other_memory_alone() -> None:
    """Writing the result of an op changes neither the caller's memory nor other results; its views change."""
    b = TraceBuilder("x", "y")
    fresh = b.op("exp", b["x"])
    view = b.op("transpose", fresh, 0, 1)
    b.op("copy_", b["y"], fresh, grad_enabled=False)
    state = execute(b.done(fresh, view, b["x"]))
    changed = [bool(leaf.versions) for leaf in state.returned]
    assert changed == [True, True, False]


def test_devices_do_not_share_memory() -> None:
    """A write to a parameter on one device does not touch parameters on another."""
    b = TraceBuilder("x", "y:cuda:1", "z")
    b.op("copy_", b.op("exp", b["x"]), b["x"], grad_enabled=False)
    state = execute(b.done(b["x"], b["y"], b["z"]))
    assert [bool(leaf.versions) for leaf in state.returned] == [True, False, True]


def test_draws_are_a_chain_per_device() -> None:
    """Equal draws differ by their place; draws of two devices are independent."""

    def drawn(b: TraceBuilder, device: str) -> TensorProxy:
        return b.op("uniform", (2,), 0.0, 1.0, device=torch.device(device), dtype=torch.float32)

    b = TraceBuilder()
    values = [drawn(b, "cuda:0"), drawn(b, "cuda:0"), drawn(b, "cuda:1")]
    before = b.done(*values)
    state = execute(before)
    assert len({state.values[value.name].number for value in values}) == 3
    assert set(state.draws) == {"cuda:0", "cuda:1"}
    assert causes(before, moved(before, 2, 0)) == []
    assert causes(before, moved(before, 1, 0)) != []


def _around_an_unknown_op(effect: Callable[[TraceBuilder], object]) -> tuple[TraceCtx, int]:
    """An effect, then an op nobody knows, on fresh memory."""
    b = TraceBuilder("x", "y")
    effect(b)
    fresh = b.op("exp", b["y"])
    made = edits.made(b.trace, lambda: TensorProxy(like=fresh))
    b.trace.bound_symbols.append(edits.unknown_op("mystery", fresh, made))
    place = len(b.trace.bound_symbols) - 1
    return b.done(made), place


def test_unknown_ops_are_ordered_with_everything() -> None:
    """Nothing with an effect may cross an op of unknown effect; a pure op on other fresh memory may."""
    trace, place = _around_an_unknown_op(lambda b: b.op("copy_", b["y"], b["x"], grad_enabled=False))
    assert causes(trace, moved(trace, place, 2)) != []
    trace, place = _around_an_unknown_op(
        lambda b: b.op("uniform", (2,), 0.0, 1.0, device=torch.device("cuda:0"), dtype=torch.float32)
    )
    assert causes(trace, moved(trace, place, 2)) != []
    trace, place = _around_an_unknown_op(lambda b: b.op("sin", b.op("exp", b["x"])))
    assert causes(trace, moved(trace, 3, place)) == []


def test_regions_are_inlined() -> None:
    """A region numbers its results as the ops it replaces."""
    before = chain()
    plain, fused = Subject(view_trace(before), view_trace(fuse(before, 2, 3))).executions
    name = before.bound_symbols[3].output.name
    assert plain.values[name].number == fused.values[name].number


def test_dependents_are_counted() -> None:
    """Only the first op of a difference is reported; what depends on it is counted."""
    before = chain()
    numbers = Numbers()
    (divergence,) = compare(execute(before, numbers), execute(without(before, 2), numbers))
    assert divergence.cause is Cause.MISSING
    assert divergence.dependents == 2


def test_two_differences_are_both_reported() -> None:
    """Independent differences do not hide each other."""
    b = TraceBuilder("x")
    before = b.done(b.op("mul", b["x"], 2.0), b.op("add", b["x"], 3.0))
    mul, add = before.bound_symbols[1:3]
    after = edits.replaced(before, 1, mul.from_bsym(args=(mul.args[0], 5.0)))
    after = edits.replaced(after, 2, add.from_bsym(args=(add.args[0], 6.0, *add.args[2:])))
    assert causes(before, after) == [Cause.LITERALS, Cause.LITERALS]


def test_no_trace_is_refused() -> None:
    """Something that is no trace gets a one-line TypeError that says what to pass."""
    with pytest.raises(TypeError, match=r"expected a Thunder trace .* got int"):
        verify(3, chain())  # type: ignore[arg-type]
