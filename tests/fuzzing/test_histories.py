"""Histories: scripts make the same calls as the fuzzer does, and every sequence of the catalogue can be drawn."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

from cgverify.emulation import EmulatedCUDA
from cgverify.fuzzing.devices import open_device
from cgverify.fuzzing.execution import Record, run_history
from cgverify.fuzzing.history_source import HistoryWriter
from cgverify.fuzzing.program import (
    Backward,
    Call,
    Collect,
    Draw,
    Event,
    Feed,
    Forget,
    Input,
    Other,
    Program,
    Relayout,
    Replace,
    Reseed,
    Share,
    Step,
    Stream,
    Write,
)
from cgverify.fuzzing.rendering import render_source
from cgverify.fuzzing.reproducer import LOOK
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import eager_side, jit_side
from cgverify.fuzzing.strategies import programs

import pytest
import torch
from hypothesis import given, seed, settings

PAIR = (Input(shape=(2, 3), values="integers"), Input(shape=(2, 3), values="integers"))
PLAIN = Program(inputs=PAIR, steps=(Step("add", (0, 1)), Step("neg", (2,))), outputs=(-1, 2))
WRITING = Program(inputs=PAIR, steps=(Step("add_", (0, 1)), Step("neg", (0,))), outputs=(-1, 0))
SHARING = Program(inputs=PAIR, steps=(Step("neg_", (0,)), Step("add", (0, 1))), outputs=(-1, 0))
DRAWING = Program(inputs=PAIR, steps=(Step("dropout", (0,)),), outputs=(-1,))
TRAINED = Program(
    inputs=(PAIR[0], Input(shape=(2, 3), role="parameter", requires_grad=True)),
    steps=(Step("mul", (0, 1)), Step("tanh", (2,)), Step("exp", (3,))),
    outputs=(-1, 3),
)
MODULE = Program(
    inputs=(PAIR[0], Input(shape=(2, 3), role="parameter"), Input(shape=(2, 3), role="buffer")),
    steps=(Step("mul", (0, 1)), Step("add", (3, 2))),
    outputs=(-1,),
)


def _see(program: Program) -> tuple[Record, list[tuple[str, Any]]]:
    """What the fuzzer sees of a program run eagerly, and what a script sees."""
    resolved = resolve_program(program)
    lines = HistoryWriter(resolved, "program", None).write(program.history)
    body = "\n".join(f"    {line}" for line in lines)
    source = f"import torch\n{render_source(resolved)}\n{LOOK}\ndef run(make, seen):\n{body}\n"
    namespace: dict[str, Any] = {"EmulatedCUDA": EmulatedCUDA, "inf": inf, "nan": nan}
    exec(compile(_with_imports(source), "<script>", "exec"), namespace)
    seen: list[tuple[str, Any]] = []
    with EmulatedCUDA(poison=True):
        record = run_history(eager_side(resolved, "jit"), resolved, program.history)
    with EmulatedCUDA(poison=True):
        try:
            namespace["run"](lambda function: function, seen)
        except RuntimeError:
            assert any(call.error for call in record.calls)
    return record, seen


def _with_imports(source: str) -> str:
    return f"import operator\nfrom contextlib import nullcontext\n{source}"


def _assert_same(program: Program) -> Record:
    """The bits of results, gradients and what is held are the same on both ways."""
    record, seen = _see(program)
    assert not any(call.error for call in record.calls), [call.error for call in record.calls]
    looked = {what: content for what, content in seen if what.startswith(("input", "result")) and "end" not in what}
    for number, call in enumerate(record.calls):
        for place, snapshot in enumerate(call.results):
            if snapshot.kind == "tensor":
                assert looked[f"result {place} of call {number}"][1] == snapshot.bits
        for place, snapshot in enumerate(call.inputs):
            assert looked[f"input {place} after call {number}"][1] == snapshot.bits
    at_end = [content[1] for what, content in seen if what.endswith("at the end") and isinstance(content[1], bytes)]
    assert sorted(at_end) == sorted(snapshot.bits for _, _, snapshot in record.held)
    gradients = [content for what, content in seen if what.startswith("gradient of input")]
    expected = [snapshot for _, found in record.gradients for snapshot in found]
    assert [c[1] for c in gradients if isinstance(c[1], bytes)] == [s.bits for s in expected if s.kind == "tensor"]
    return record


def with_history(program: Program, *history: Event) -> Program:
    """The program with these events."""
    return Program(inputs=program.inputs, steps=program.steps, outputs=program.outputs, history=history)


SEQUENCES: dict[str, Callable[[], Program]] = {
    "Q1": lambda: with_history(PLAIN, Call((1,)), Call((2,)), Call((1,)), Call((3,))),
    "Q2": lambda: with_history(WRITING, Call((1,)), Write(0, 3), Call(), Write(1, 4), Call(), Call()),
    "Q3": lambda: with_history(
        SHARING, Call((1,)), Share(1, 0), Call((2,)), Share(1, 0, True), Call((3,)), Share(1, 1), Call((4,))
    ),
    "Q4": lambda: with_history(PLAIN, Call((1,)), Feed(0, 0), Call(), Feed(1, 3), Call(), Call((2,))),
    "Q5": lambda: with_history(
        PLAIN, Call((1,)), Relayout(0, "transposed"), Call((2,)), Relayout(1, "offset"), Call((3,)), Call((4,))
    ),
    "Q6": lambda: with_history(MODULE, Call((1,)), Write(1, 2), Call(), Replace(1, 3), Call(), Call((2,))),
    "Q7": lambda: with_history(
        TRAINED,
        Call((1,)),
        Call((2,)),
        Backward(1, True),
        Call((3,), quiet=True),
        Backward(1, False, 0),
        Backward(0),
        Call((4,)),
    ),
    "Q8": lambda: with_history(DRAWING, Call((1,)), Call((2,)), Reseed(7), Draw(), Call((1,)), Call((2,))),
    "Q10": lambda: with_history(
        PLAIN, Call((1,)), Other(1), Call((2,)), Other(2), Call((3,)), Other(0, True), Collect(), Call((4,)), Other(3)
    ),
    "Q11": lambda: with_history(
        PLAIN, Call((1,)), Stream(1), Call((2,)), Stream(2), Call((3,)), Stream(0), Call((4,), thread=True)
    ),
    "Q12": lambda: with_history(PLAIN, Call((1,)), Call((2,), captured=True), Call((3,)), Call((4,), captured=True)),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequence(name: str) -> None:
    """A sequence of the catalogue runs, and the script that would reproduce it makes the same calls."""
    _assert_same(SEQUENCES[name]())


def test_a_caller_that_forgets() -> None:
    """Results that the caller drops are not looked at again, those of a pending backward stay usable."""
    record = _assert_same(
        with_history(TRAINED, Call((1,)), Call((2,)), Forget(), Call((3,)), Backward(0), Forget(), Call((4,)))
    )
    assert {call for call, _, _ in record.held} == {1, 2, 3}


def test_calls_in_autocast() -> None:
    """Thunder casts in the calls in autocast and in no other, wherever they are made; each kind of call is an entry."""
    inputs = (Input(shape=(2, 3)), Input(shape=(3, 3), role="parameter"))
    history = (
        Call((1,)),
        Call((2,), autocast="bf16"),
        Call((3,), thread=True, autocast="bf16"),
        Stream(1),
        Call((4,), autocast="f16"),
        Call((5,), captured=True, autocast="f16"),
        Stream(0),
        Call((6,)),
    )
    program = Program(inputs=inputs, steps=(Step("linear", (0, 1)),), outputs=(-1,), history=history)
    _assert_same(program)
    resolved = resolve_program(program)
    with EmulatedCUDA():
        side, _ = jit_side(resolved)
        record = run_history(side, resolved, history)
    names = {None: torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    calls = [event for event in history if isinstance(event, Call)]
    assert [call.results[0].dtype for call in record.calls] == [str(names[call.autocast]) for call in calls]
    script = "\n".join(HistoryWriter(resolved, "program", None).write(history))
    assert "r1 = in_autocast(torch.bfloat16, function)(x0)" in script
    assert "r2 = in_thread(in_autocast(torch.bfloat16, function), [x0])" in script
    assert "r3 = on_stream(stream1, in_autocast(torch.float16, function), [x0])" in script
    assert "r4 = in_capture(graph4, in_autocast(torch.float16, function), [x0])" in script


def test_memory_is_poisoned() -> None:
    """Programs run with NaNs in memory that nobody wrote or that was freed."""
    with open_device("emulated"):
        fresh = torch.empty(1000, device="cuda")
        assert fresh.isnan().all()
        fresh.fill_(1.0)
        kept = fresh.data_ptr()
        del fresh
        again = torch.empty(1000, device="cuda")
        assert again.data_ptr() == kept
        assert again.isnan().all()


@given(program=programs(gradients=True))
@pytest.mark.filterwarnings("ignore::UserWarning")  # as of the variance of one element
@seed(11)
@settings(max_examples=40, deadline=None, database=None)
def test_scripts_make_the_same_calls(program: Program) -> None:
    """Whatever is drawn, the straight-line script sees the bits that the fuzzer sees."""
    resolved = resolve_program(program)
    if resolved.is_random and any(getattr(event, "captured", False) for event in program.history):
        return
    record, _ = _see(program)
    if not any(call.error for call in record.calls):
        _assert_same(program)
