"""A program with every operand named, and back: what a reducer edits.

In a :class:`~cgverify.fuzzing.program.Program` an operand is a choice among the values that fit, so deleting one step
can change what all later steps mean. Here an operand is the result it comes from. After an edit,
:func:`encode_choices` finds the raw choices that keep every operand it can; an operand that is gone is replaced by
what the deleted step read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cgverify.fuzzing.operations import OPERATIONS
from cgverify.fuzzing.pool import Pool, Ref
from cgverify.fuzzing.program import Input, Program, Step
from cgverify.fuzzing.resolution import add_inputs, find_candidates, resolve_step

import msgspec


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from: an input, or a place among the values that a step adds to the pool."""

    maker: int  # identity of the input or the step, stable under edits
    place: int = 0


@dataclass(frozen=True, slots=True)
class ChosenStep:
    """A step and the origins of its operands."""

    identity: int
    step: Step
    operands: tuple[Origin, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """A program whose operands and outputs are origins.

    Attributes:
        inputs: identity and input, in order.
        steps: in order; those that found no operands are left out.
        outputs: origins, or None for None.
        program: what it was read from: the rest of it stays.
    """

    inputs: tuple[tuple[int, Input], ...]
    steps: tuple[ChosenStep, ...]
    outputs: tuple[Origin | None, ...]
    program: Program


def read_choices(program: Program) -> Choices:
    """Name every operand of a program."""
    pool = Pool()
    add_inputs(pool, program.inputs)
    origins = [Origin(number) for number in range(len(program.inputs))]
    steps = []
    for position, step in enumerate(program.steps):
        identity = len(program.inputs) + position
        start = len(pool.types)
        chosen = resolve_step(pool, step)
        if chosen is None:
            continue
        origins += [Origin(identity, place) for place in range(len(pool.types) - start)]
        steps.append(ChosenStep(identity, step, tuple(origins[ref.value] for ref in chosen)))
    outputs = tuple(None if n is None else origins[n % len(origins)] for n in program.outputs)
    return Choices(tuple(enumerate(program.inputs)), tuple(steps), outputs, program)


def encode_choices(choices: Choices) -> Program:
    """Return the program whose operands are, as far as they still fit, those of `choices`."""
    pool = Pool()
    inputs = tuple(entry for _, entry in choices.inputs)
    add_inputs(pool, inputs)
    numbers = {Origin(identity): number for number, (identity, _) in enumerate(choices.inputs)}
    steps = []
    for chosen in choices.steps:
        wanted = [numbers.get(origin) for origin in chosen.operands]
        args: tuple[int, ...] = ()
        refs: tuple[Ref, ...] = ()
        for position, number in enumerate(wanted):
            candidates = find_candidates(pool, OPERATIONS[chosen.step.op], position, refs)
            if not candidates:
                break
            raw = candidates.index(Ref(number)) if number is not None and Ref(number) in candidates else 0
            args, refs = (*args, raw), (*refs, candidates[raw])
        step = Step(chosen.step.op, args, chosen.step.params)
        start = len(pool.types)
        if resolve_step(pool, step) is None:
            continue
        steps.append(step)
        for place in range(len(pool.types) - start):
            numbers[Origin(chosen.identity, place)] = start + place
    outputs = tuple(None if origin is None else numbers.get(origin, 0) for origin in choices.outputs)
    program = choices.program
    return Program(inputs=inputs, steps=tuple(steps), outputs=outputs, history=program.history, why=program.why)


def without_step(choices: Choices, position: int) -> Choices:
    """Delete a step; who read its results reads its first operand instead."""
    gone = choices.steps[position]
    stand_in = gone.operands[0] if gone.operands else None
    kept = (*choices.steps[:position], *choices.steps[position + 1 :])
    return _substitute(replace(choices, steps=kept), gone.identity, stand_in)


def without_input(choices: Choices, position: int) -> Choices:
    """Delete an input; who read it reads the first one left instead."""
    gone, _ = choices.inputs[position]
    kept = tuple(
        (identity, _shift_alias(entry, position)) for n, (identity, entry) in enumerate(choices.inputs) if n != position
    )
    stand_in = Origin(kept[0][0]) if kept else None
    return _substitute(replace(choices, inputs=kept), gone, stand_in)


def _shift_alias(entry: Input, gone: int) -> Input:
    base = entry.alias_of
    if base is None or base < gone:
        return entry
    return msgspec.structs.replace(entry, alias_of=None if base == gone else base - 1)


def _substitute(choices: Choices, gone: int, stand_in: Origin | None) -> Choices:
    def swap(origin: Origin) -> Origin:
        return stand_in if stand_in is not None and origin.maker == gone else origin

    steps = tuple(replace(step, operands=tuple(map(swap, step.operands))) for step in choices.steps)
    outputs = tuple(None if origin is None else swap(origin) for origin in choices.outputs)
    return replace(choices, steps=steps, outputs=outputs)
