"""What a device answers about a program: does a capture allow it, what is the verdict on it, what are its bits.

The same questions are put to a GPU and to the emulation, so an answer is text that both can give.
"""

from __future__ import annotations

import hashlib
import random
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from cgverify.fuzzing.arguments import make_inputs
from cgverify.fuzzing.devices import DeviceName, open_device
from cgverify.fuzzing.execution import prepare_values, run_history
from cgverify.fuzzing.operations import OPERATIONS
from cgverify.fuzzing.oracles import check
from cgverify.fuzzing.pool import Pool
from cgverify.fuzzing.program import PLAIN_HISTORY, Input, Program, Step
from cgverify.fuzzing.rendering import compile_source, render_source
from cgverify.fuzzing.resolution import add_inputs, resolve_program, resolve_step
from cgverify.fuzzing.sides import eager_side
from cgverify.fuzzing.signatures import Operation, Parameter
from cgverify.fuzzing.targets import find_target

import msgspec
import torch

PER_OPERATION = 4
"""How many programs ask about each operation: other dtypes, layouts, parameters."""

_TRIES = 400
_WHOLES = ((3,), (2, 3), (3, 3), (2, 3, 4), (2, 2, 4, 4), (1, 3), (1,))
_DTYPES: tuple[Any, ...] = ("f32", "f32", "f64", "i64", "bool", "bf16", "f16", "i32")


def legality_programs(per_operation: int = PER_OPERATION) -> Iterator[tuple[str, Program]]:
    """Yield (operation, program) for every operation of the vocabulary: programs of that one step, always the same."""
    for operation in OPERATIONS.values():
        draws = random.Random(operation.name)
        seen: set[str] = set()
        for _ in range(_TRIES):
            program = _try_program(operation, draws)
            source = None if program is None else render_source(resolve_program(program))
            if program is None or source is None or source in seen:
                continue
            seen.add(source)
            yield operation.name, program
            if len(seen) == per_operation:
                break


def _try_program(operation: Operation, draws: random.Random) -> Program | None:
    """Draw inputs and operands for one step; None if they do not suit the operation."""
    whole = draws.choice(_WHOLES)
    shapes = (whole, whole, whole[1:], (*whole[-1:], *whole[-1:]), whole[-1:], ())
    inputs = tuple(
        Input(
            shape=draws.choice(shapes),
            dtype=draws.choice(_DTYPES),
            layout=draws.choice(("contiguous", "contiguous", "contiguous", "transposed", "strided")),
            device="cpu" if draws.random() < 0.05 else "cuda",
            values=draws.choice(("normal", "integers")),
        )
        for _ in range(4)
    )
    steps = [
        Step(operation.name, tuple(draws.randrange(16) for _ in operation.operands), _parameters(operation, draws))
    ]
    if operation.family == "number" and operation.name != "item":
        steps.insert(0, Step("item", (0,)))
    pool = Pool()
    add_inputs(pool, inputs)
    if any(resolve_step(pool, step) is None for step in steps):
        return None
    return Program(inputs=inputs, steps=tuple(steps), outputs=(len(pool.types) - 1,), history=PLAIN_HISTORY[:1])


def _parameters(operation: Operation, draws: random.Random) -> dict[str, object]:
    drawn = {name: _value(parameter, draws) for name, parameter in operation.parameters.items()}
    return {name: value for name, value in drawn.items() if value != operation.parameters[name].default}


def _value(parameter: Parameter, draws: random.Random) -> object:
    match parameter.kind:
        case "flag":
            return draws.random() < 0.5
        case "int":
            return draws.randrange(8)
        case _:
            return draws.choice(parameter.choices)


def ask_legality(program: Program, device: DeviceName) -> str:
    """Return `ok`, `forbidden`, or `raises Class` where the program fails outside a capture too.

    Raises:
        ProgramError: the program names what does not exist.
    """
    resolved = resolve_program(program)
    arguments = replace(resolved, inputs=tuple(msgspec.structs.replace(entry, role="arg") for entry in resolved.inputs))
    function = compile_source(render_source(arguments))
    seeds, layouts = [entry.seed for entry in resolved.inputs], [entry.layout for entry in resolved.inputs]
    # A warning is no part of an answer, also where the caller's filters turn warnings into errors.
    with warnings.catch_warnings(), open_device(device), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            function(*make_inputs(resolved.inputs, seeds, layouts))
        except Exception as error:  # what the program raises by itself is the answer
            return f"raises {type(error).__name__}"
        inputs = make_inputs(resolved.inputs, seeds, layouts)
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                function(*inputs)
        except Exception:  # so is what the capture makes of it
            return "forbidden"
    return "ok"


def ask_verdict(program: Program, target: str, device: DeviceName) -> str:
    """Return the verdict on a program's own history with a target, in a word or two: `ok`, `fail wrong-result`, ..."""
    verdict = check(program, None, find_target(target), device, eager=False)
    return f"{verdict.status} {verdict.invariant}".strip()


def ask_bits(program: Program, device: DeviceName) -> str:
    """Return a digest of all that eager PyTorch's calls return and leave in the inputs.

    Empty where it says nothing: unless every intermediate is an exact integer and nothing is drawn at random, a GPU's
    kernels may round otherwise.
    """
    resolved = resolve_program(program)
    if not resolved.exact or resolved.is_random:
        return ""
    prepare_values(resolved, program.history)
    with open_device(device):
        record = run_history(eager_side(resolved, "direct"), resolved, program.history)
    digest = hashlib.sha256()
    for call in record.calls:
        for value in (*call.results, *call.inputs):
            digest.update(f"{value.kind} {value.dtype} {value.shape}".encode() + value.bits)
        digest.update(call.error.partition(":")[0].encode())
    return digest.hexdigest()[:16]
