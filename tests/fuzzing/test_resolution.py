"""Resolution: every sub-list of steps is a program, choices survive a round trip, exactness is claimed rightly."""

from __future__ import annotations

from cgverify.fuzzing.arguments import make_inputs
from cgverify.fuzzing.choices import encode_choices, read_choices, without_step
from cgverify.fuzzing.program import Input, Program, Step
from cgverify.fuzzing.rendering import compile_source, render_source
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.strategies import programs
from cgverify.fuzzing.values import TensorType
from tests.fuzzing.programs_by_name import PROGRAMS

import msgspec
import torch
from hypothesis import given, settings
from hypothesis import strategies as st


@given(program=programs(gradients=True), data=st.data())
@settings(max_examples=60, deadline=None, database=None)
def test_sublists_are_programs(program: Program, data: st.DataObject) -> None:
    """Whatever steps are deleted, the rest resolves and renders as Python that compiles."""
    kept = data.draw(st.lists(st.booleans(), min_size=len(program.steps), max_size=len(program.steps)))
    steps = tuple(step for step, keep in zip(program.steps, kept, strict=True) if keep)
    source = render_source(resolve_program(msgspec.structs.replace(program, steps=steps)))
    assert callable(compile_source(source))


@given(program=programs(gradients=True))
@settings(max_examples=60, deadline=None, database=None)
def test_choices_round_trip(program: Program) -> None:
    """Naming every operand and choosing it again gives the same statements."""
    again = encode_choices(read_choices(program))
    assert resolve_program(again).statements == resolve_program(program).statements


def test_deleting_a_step_keeps_the_other_operands() -> None:
    """Who read a deleted step reads what it read; all other operands stay what they were."""
    program = Program(
        inputs=(Input(shape=(3,)),),
        steps=(Step("neg", (0,)), Step("exp", (1,)), Step("add", (1, 2)), Step("mul", (3, 0))),
        outputs=(-1,),
    )
    shorter = encode_choices(without_step(read_choices(program), 1))
    assert "v2 = torch.add(v1, v1)\n    v3 = torch.mul(v2, x0)" in render_source(resolve_program(shorter))


def test_source_of_a_function() -> None:
    """A program reads like what a user would write."""
    assert render_source(resolve_program(PROGRAMS["item"])) == (
        "def program(x0):\n"
        "    v1 = torch.sum(x0)\n"
        "    n2 = v1.item()\n"
        "    v3 = torch.mul(x0, n2)\n"
        "    return (v3, n2, None, v3)\n"
    )


def test_source_of_a_module() -> None:
    """Parameters and buffers make it a module."""
    source = render_source(resolve_program(PROGRAMS["module"]))
    assert "self.x1 = torch.nn.Parameter(x1, requires_grad=True)" in source
    assert 'self.register_buffer("x2", x2)' in source
    assert "def forward(self, x0):" in source


def test_dead_draws_are_left_out() -> None:
    """A draw that reaches no output and no write is not drawn, nor is what is computed from it alone."""
    program = Program(
        inputs=(Input(shape=(3,)),), steps=(Step("rand"), Step("neg", (1,)), Step("neg", (0,))), outputs=(3,)
    )
    assert [s.function for s in resolve_program(program).statements] == ["torch.neg"]


@given(program=programs(modules=False))
@settings(max_examples=150, deadline=None, database=None)
def test_exact_programs_are_exact(program: Program) -> None:
    """Where every intermediate is claimed to be an integer within bounds, eager PyTorch computes just that."""
    inputs = tuple(msgspec.structs.replace(entry, values="integers", device="cpu") for entry in program.inputs)
    steps = tuple(step for step in program.steps if step.op not in ("to_device",))
    resolved = resolve_program(msgspec.structs.replace(program, inputs=inputs, steps=steps, outputs=tuple(range(60))))
    source = render_source(resolved)
    if not resolved.exact or "cuda" in source:
        return
    made = make_inputs(resolved.inputs, [1] * len(inputs), [entry.layout for entry in resolved.inputs])
    for number, value in zip(resolved.outputs, compile_source(source)(*made), strict=True):
        assert number is not None
        kind = resolved.types[number]
        if isinstance(kind, TensorType) and kind.is_float:
            assert kind.bound is not None
            assert torch.equal(value, value.round())
            assert value.numel() == 0 or float(value.abs().max()) <= kind.bound


def test_an_input_written_in_place_is_asked_again() -> None:
    """`tanh_` of an integer input leaves no integer behind, so the program is not exact."""
    program = Program(
        inputs=(Input(shape=(3,), values="integers"),), steps=(Step(op="tanh_", args=(0,)),), outputs=(0,)
    )
    assert not resolve_program(program).exact
    assert resolve_program(msgspec.structs.replace(program, steps=())).exact
