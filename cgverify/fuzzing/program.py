"""A random Thunder program as plain data, and its file format.

A program is a list of inputs, a list of steps and a list of outputs, with the call history that makes it interesting.
Steps are *total*: `args` are integers, taken modulo the values of the right type that exist when the step is reached,
and a step for which there is none is skipped. So every sub-list of steps is a program, which is what lets a shrinker
delete steps freely. :mod:`cgverify.fuzzing.resolution` gives each step its operands.

A program file is UTF-8 JSON, one object; the version number changes when old files would mean something else.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from cgverify.fuzzing.events import (
    PLAIN_HISTORY,
    Backward,
    Call,
    Collect,
    Draw,
    Event,
    Feed,
    Forget,
    History,
    Layout,
    Other,
    Plain,
    Relayout,
    Replace,
    Reseed,
    Scribble,
    Share,
    Stream,
    Write,
)
from cgverify.fuzzing.operations import OPERATIONS
from cgverify.fuzzing.values import FLOATS

import msgspec

__all__ = [
    "FORMAT",
    "PLAIN_HISTORY",
    "VERSION",
    "Backward",
    "Call",
    "Collect",
    "Draw",
    "Event",
    "Feed",
    "Forget",
    "History",
    "Input",
    "Layout",
    "Other",
    "Program",
    "ProgramError",
    "Relayout",
    "Replace",
    "Reseed",
    "Scribble",
    "Share",
    "Size",
    "Step",
    "Stream",
    "Values",
    "Write",
    "check_program",
    "decode_program",
    "encode_program",
    "load_program",
]

FORMAT = "cgverify-program"
VERSION = 2

Size = Annotated[int, msgspec.Meta(ge=0, le=64)]
Values = Literal["normal", "integers", "special"]


class ProgramError(ValueError):
    """A program that cannot be read or rendered; one line says which, why, and what to do."""


class Input(Plain, kw_only=True, frozen=True):
    """One tensor that the caller passes.

    Attributes:
        shape: its sizes.
        dtype: `f32`, `f64`, `f16`, `bf16`, `i64`, `i32`, `u8` or `bool`.
        layout: its strides. `transposed` swaps the last two dimensions in memory, `strided` leaves gaps, `offset`
            starts one element into its storage, `expanded` repeats one slice along the first dimension.
        device: `cuda`, or `cpu` for a tensor that stays on the host.
        role: `arg` comes anew with each call; `parameter` and `buffer` belong to a module and keep their address.
        alias_of: position of an earlier input of the same dtype, device and number of elements whose memory it shares;
            with the layout `offset`, of the same shape too, shifted by one element.
        requires_grad: whether autograd tracks it, where it can: not a buffer, and not integers.
        values: how its elements are drawn: from a normal distribution; as integers of magnitude 4 or less; or with
            infinities, NaNs, zeros of both signs and extremes among them.
        seed: seed of the values that a parameter or a buffer starts with.
    """

    shape: tuple[Size, ...]
    dtype: Literal["f32", "f64", "f16", "bf16", "i64", "i32", "u8", "bool"] = "f32"
    layout: Layout = "contiguous"
    device: Literal["cuda", "cpu"] = "cuda"
    role: Literal["arg", "parameter", "buffer"] = "arg"
    alias_of: int | None = None
    requires_grad: bool = False
    values: Values = "normal"
    seed: int = 0

    @property
    def trains(self) -> bool:
        """Whether autograd tracks it."""
        return self.requires_grad and self.dtype in FLOATS and self.role != "buffer"

    def fits_memory_of(self, base: Input) -> bool:
        """Whether it can be an alias of `base`."""
        shapes_fit = self.shape == base.shape if self.layout == "offset" else prod(self.shape) == prod(base.shape)
        return shapes_fit and (self.dtype, self.device) == (base.dtype, base.device)


class Step(Plain, frozen=True):
    """One operation: its name, raw operand choices, and parameters (see :mod:`cgverify.fuzzing.operations`)."""

    op: str
    args: tuple[int, ...] = ()
    params: dict[str, Any] = msgspec.field(default_factory=dict)


class Program(Plain, kw_only=True, frozen=True):
    """A program: inputs, steps, outputs (indices modulo the number of values, None for None), history, and why it is
    kept.
    """

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...] = ()
    outputs: tuple[int | None, ...] = ()
    history: History = PLAIN_HISTORY
    why: str = ""


class _File(Plain, kw_only=True, frozen=True, omit_defaults=False):
    format: str
    version: int
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int | None, ...]
    history: History = PLAIN_HISTORY
    why: str = ""


def encode_program(program: Program) -> str:
    """Return the text of a program file: one line for each input, step and event."""
    lines = [f' "format": {_text(FORMAT)}', f' "version": {VERSION}']
    for key in ("inputs", "steps", "history"):
        entries = [f"  {_text(entry)}" for entry in getattr(program, key)]
        lines.append(f' "{key}": [' + ",\n".join(["", *entries])[1:] + ("\n ]" if entries else "]"))
    lines += [f' "outputs": {_text(program.outputs)}', f' "why": {_text(program.why)}']
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _text(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def decode_program(text: str | bytes, source: str = "the program") -> Program:
    """Read the text of a program file.

    Args:
        text: UTF-8 JSON.
        source: what to call it in an error.

    Raises:
        ProgramError: not JSON, another format or version, an unknown operation or key, a value of the wrong type.
    """
    try:
        header = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProgramError(f"{source} is not JSON ({error}); a program file holds one JSON object") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ProgramError(
            f'{source} is not a program file: its "format" is not "{FORMAT}"; write programs with encode_program'
        )
    try:
        file = msgspec.convert(_migrate(header, source), _File)
    except msgspec.ValidationError as error:
        raise ProgramError(f"{source}: {error}; see cgverify.fuzzing.program for the keys and their values") from None
    program = Program(inputs=file.inputs, steps=file.steps, outputs=file.outputs, history=file.history, why=file.why)
    check_program(program, source)
    return program


def _migrate(header: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the content of a file in the present version, from whichever version it has."""
    version = header.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ProgramError(
            f"{source} has version {version!r}, and this cgverify reads versions 1 to {VERSION}; "
            "use the cgverify that wrote it, or generate the program again"
        )
    if version == 1 and isinstance(header.get("inputs"), list):
        # An alias had its base's layout then, whatever its own said.
        inputs = [
            {key: value for key, value in entry.items() if key != "layout"}
            if isinstance(entry, dict) and entry.get("alias_of") is not None
            else entry
            for entry in header["inputs"]
        ]
        header = {**header, "version": VERSION, "inputs": inputs}
    return header


def load_program(path: str | Path) -> Program:
    """Read a program file; the errors are those of :func:`decode_program` and OSError."""
    return decode_program(Path(path).read_bytes(), str(path))


def check_program(program: Program, source: str = "the program") -> None:
    """Raise ProgramError unless the operations, their parameters and the aliases of `program` exist."""
    for position, entry in enumerate(program.inputs):
        base = entry.alias_of
        if base is not None and not 0 <= base < position:
            raise ProgramError(f"{source}: input {position} aliases input {base}; it must name an earlier input")
        if base is not None and not entry.fits_memory_of(program.inputs[base]):
            raise ProgramError(
                f"{source}: input {position} aliases input {base}, which is of another kind; give it the same dtype, "
                "device and number of elements, and with the layout offset the same shape"
            )
    for position, step in enumerate(program.steps):
        operation = OPERATIONS.get(step.op)
        if operation is None:
            raise ProgramError(
                f"{source}: step {position} has the unknown op {step.op!r}; use one of {', '.join(OPERATIONS)}"
            )
        for key, value in step.params.items():
            parameter = operation.parameters.get(key)
            if parameter is None:
                known = ", ".join(operation.parameters) or "none"
                raise ProgramError(
                    f"{source}: step {position} ({step.op}) has the unknown parameter {key!r}; it takes: {known}"
                )
            if not parameter.accepts(value):
                raise ProgramError(
                    f"{source}: step {position} ({step.op}) has {key}={value!r}; it must be {parameter.describe()}"
                )
