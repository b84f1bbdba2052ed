"""Makes a failing program small: fewer and plainer steps, fewer and plainer inputs, a shorter history.

It works after Hypothesis, or instead of it, on the program itself, so it knows what is plainer: an operand that
disappears is replaced by what its step read, shapes shrink to sizes 1 and 2, dtypes to float32, layouts to contiguous,
and where there is one fault only an op becomes one that negates or adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

from cgverify.fuzzing.choices import Choices, encode_choices, read_choices, without_input, without_step
from cgverify.fuzzing.program import PLAIN_HISTORY, Call, Event, Input, Program, Step
from cgverify.fuzzing.resolution import resolve_program

import msgspec

PLAIN_OPS = {"neg": 1, "add": 2, "neg_": 1, "add_": 2, "zero_": 1, "item": 1}
"""Ops that stand for any other, with the number of their operands: new values, writes, and a wait of the host."""

FEW = 12
"""Up to how many steps two are tried to be left out at once: some are needed by one another."""

SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (2,), (3,), (2, 2), (2, 3))


def reduce_program(
    program: Program,
    fails: Callable[[Program], bool],
    *,
    seconds: float = 20.0,
    attempts: int = 600,
    one_fault: bool = False,
) -> Program:
    """Return a program that still fails and of which no single simplification tried here does.

    Args:
        program: a program for which `fails` holds.
        fails: whether a program shows the failure in question.
        seconds: time after which the best so far is returned.
        attempts: calls of `fails` after which it is.
        one_fault: whether only one fault can be behind the failure, so that ops may be replaced by others; otherwise
            one fault might give way to another.
    """
    deadline = time.monotonic() + seconds
    best = encode_choices(read_choices(program))
    if not fails(best):
        best = program
    changed = True
    while changed:
        changed = False
        for candidate in chain(_simpler(best), _plainer_ops(best) if one_fault else ()):
            if attempts <= 0 or time.monotonic() > deadline:
                return best
            if candidate == best or measure(candidate) >= measure(best):
                continue
            attempts -= 1
            if fails(candidate):
                best, changed = candidate, True
                break
    return best


def measure(program: Program) -> tuple[Any, ...]:
    """Return how big a program is: the smaller tuple is the plainer program."""
    inputs = program.inputs
    plain = Input(shape=())
    oddities = sum(
        getattr(entry, name) != getattr(plain, name)
        for entry in inputs
        for name in ("layout", "device", "role", "alias_of", "requires_grad", "seed")
    )
    dtypes = sum(("f32", "f64", "i64", "bool", "bf16", "f16", "i32", "u8").index(entry.dtype) for entry in inputs)
    values = sum(("integers", "normal", "special").index(entry.values) for entry in inputs)
    elements = sum(sum(entry.shape) + len(entry.shape) for entry in inputs)
    params = sum(len(step.params) for step in program.steps)
    args = sum(sum(abs(arg) for arg in step.args) for step in program.steps)
    nones = sum(output is None for output in program.outputs)
    odd_calls = sum(len(_oddities(event)) for event in program.history)
    events = len(program.history), sum(not isinstance(event, Call) for event in program.history), odd_calls
    outputs = len(program.outputs), nones
    odd_ops = sum(step.op not in PLAIN_OPS for step in program.steps)
    statements = len(resolve_program(program).statements)  # a step may stand for several
    return (
        statements,
        len(program.steps),
        odd_ops,
        len(inputs),
        outputs,
        events,
        oddities,
        dtypes,
        values,
        params,
        elements,
        args,
    )


def _simpler(program: Program) -> Iterator[Program]:
    """Yield simplifications of a program, the most promising first."""
    choices = read_choices(program)
    yield from _fewer_steps(choices)
    yield from map(encode_choices, (without_input(choices, n) for n in reversed(range(len(choices.inputs)))))
    yield from _fewer_outputs(program)
    yield from _shorter_histories(program)
    yield from _plainer_inputs(choices)
    yield from _plainer_steps(program)
    yield from _fewer_pairs(choices)


def _fewer_steps(choices: Choices) -> Iterator[Program]:
    count = len(choices.steps)
    size = count // 2
    while size > 1:
        for start in range(0, count, size):
            rest = choices
            for position in reversed(range(start, min(start + size, count))):
                rest = without_step(rest, position)
            yield encode_choices(rest)
        size //= 2
    for position in reversed(range(count)):
        yield encode_choices(without_step(choices, position))


def _fewer_pairs(choices: Choices) -> Iterator[Program]:
    if len(choices.steps) <= FEW:
        for later, earlier in combinations(reversed(range(len(choices.steps))), 2):
            yield encode_choices(without_step(without_step(choices, later), earlier))


def _plainer_ops(program: Program) -> Iterator[Program]:
    choices = read_choices(program)
    for position, chosen in enumerate(choices.steps):
        for op, operands in PLAIN_OPS.items() if chosen.step.op not in PLAIN_OPS else ():
            if len(chosen.operands) >= operands:
                plain = replace(chosen, step=Step(op), operands=chosen.operands[:operands])
                steps = (*choices.steps[:position], plain, *choices.steps[position + 1 :])
                yield encode_choices(replace(choices, steps=steps))


def _fewer_outputs(program: Program) -> Iterator[Program]:
    for position in reversed(range(len(program.outputs))):
        outputs = (*program.outputs[:position], *program.outputs[position + 1 :])
        yield msgspec.structs.replace(program, outputs=outputs)


def _shorter_histories(program: Program) -> Iterator[Program]:
    history = program.history
    for shorter in (PLAIN_HISTORY[:1], PLAIN_HISTORY[:2], PLAIN_HISTORY[:3], PLAIN_HISTORY):
        yield msgspec.structs.replace(program, history=shorter)
    for position in reversed(range(len(history))):
        yield msgspec.structs.replace(program, history=(*history[:position], *history[position + 1 :]))
    for position, event in enumerate(history):
        for name, plain in _oddities(event).items():
            plainer = msgspec.structs.replace(event, **{name: plain})
            yield msgspec.structs.replace(program, history=(*history[:position], plainer, *history[position + 1 :]))


def _oddities(event: Event) -> dict[str, Any]:
    """Return what is special about where and how a call is made, and what each would plainly be."""
    if not isinstance(event, Call):
        return {}
    plain = Call()
    names = ("quiet", "thread", "captured", "autocast")
    return {name: getattr(plain, name) for name in names if getattr(event, name) != getattr(plain, name)}


def _plainer_inputs(choices: Choices) -> Iterator[Program]:
    """Change one property of one input (and of its aliases), or the shape of all; operands that still fit stay."""
    entries = [entry for _, entry in choices.inputs]
    for shape in SHAPES:
        yield _with_inputs(choices, [msgspec.structs.replace(entry, shape=shape) for entry in entries])
    for position, entry in enumerate(entries):
        for change in _plainer_input(entry):
            changed = msgspec.structs.replace(entry, **change)
            yield _with_inputs(choices, [*entries[:position], changed, *entries[position + 1 :]])


def _plainer_input(entry: Input) -> Iterator[dict[str, Any]]:
    yield {"layout": "contiguous"}
    yield {"alias_of": None}
    yield {"role": "arg"}
    yield {"device": "cuda"}
    yield {"requires_grad": False}
    yield {"dtype": "f32"}
    yield {"dtype": "f64"}
    yield {"dtype": "i64"}
    yield {"values": "integers"}
    yield {"values": "normal"}
    yield {"seed": 0}
    for shape in SHAPES:
        yield {"shape": shape}


def _with_inputs(choices: Choices, entries: list[Input]) -> Program:
    identities = [identity for identity, _ in choices.inputs]
    for position, entry in enumerate(entries):
        if entry.alias_of is not None and not entry.fits_memory_of(base := entries[entry.alias_of]):
            fitting = msgspec.structs.replace(entry, shape=base.shape, dtype=base.dtype, device=base.device)
            entries[position] = fitting
    numbered = tuple(zip(identities, entries, strict=True))
    return encode_choices(Choices(numbered, choices.steps, choices.outputs, choices.program))


def _plainer_steps(program: Program) -> Iterator[Program]:
    for position, step in enumerate(program.steps):
        for name in step.params:
            params = {key: value for key, value in step.params.items() if key != name}
            yield _with_step(program, position, Step(step.op, step.args, params))
        for place, arg in enumerate(step.args):
            for smaller in range(min(arg, 3)):
                args = (*step.args[:place], smaller, *step.args[place + 1 :])
                yield _with_step(program, position, Step(step.op, args, step.params))


def _with_step(program: Program, position: int, step: Step) -> Program:
    steps = (*program.steps[:position], step, *program.steps[position + 1 :])
    return msgspec.structs.replace(program, steps=steps)
