"""What commands share: options that mean the same everywhere, the error of one line, JSON of one shape."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

STANDARD_OUTPUT = "-"


class CommandError(Exception):
    """A command cannot go on; the message says in one line what, why, and what to do."""


class Device(str, Enum):
    """Where ``cuda`` tensors live."""

    auto = "auto"
    emulated = "emulated"
    cuda = "cuda"


LocationArgument = Annotated[str, typer.Argument(metavar="FILE.py:FUNC", help="A function in a file.")]
TargetOption = Annotated[
    str,
    typer.Option(help="cgverify, thunder, none, module:attribute, FILE.py:attribute, or an attribute of the file."),
]
InputsOption = Annotated[
    str | None, typer.Option(help='Arguments in place of FUNC_inputs(device), as in "f32[4,4] i64[4]".')
]
DeviceOption = Annotated[Device, typer.Option(help="auto takes a GPU where there is one, else the emulation.")]
JsonOption = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write JSON too; without FILE, or with -, print it and nothing else."),
]


@contextmanager
def one_line_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Turns errors whose message already is a good line into a `CommandError`."""
    try:
        yield
    except kinds as error:
        raise CommandError(str(error)) from error


@contextmanager
def only_json(where: str | None) -> Iterator[None]:
    """Sends what the user's code prints to standard error while JSON alone goes to standard output."""
    if where != STANDARD_OUTPUT:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


def write_json(subject: str, found: Mapping[str, Any], where: str) -> None:
    """Write one object, ``{"format": "cgverify-SUBJECT", "version": 1, ...}``, to a file, or print it.

    Args:
        subject: what the object is about; names the format.
        found: the rest of the object, plain data.
        where: a path, or ``-`` for standard output.

    Raises:
        CommandError: the file cannot be written.
    """
    text = json.dumps({"format": f"cgverify-{subject}", "version": 1, **found}, indent=2)
    if where == STANDARD_OUTPUT:
        print(text)
    else:
        write_text(where, text + "\n")


def write_text(path: str, text: str) -> None:
    """Write a file.

    Raises:
        CommandError: it cannot be written.
    """
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}; name a file in a folder that exists") from error


def fill_in_json(arguments: list[str]) -> list[str]:
    """Give each ``--json`` that no file follows the ``-`` that it stands for: the parser knows no optional values."""
    filled: list[str] = []
    for index, argument in enumerate(arguments):
        filled.append(argument)
        rest = arguments[index + 1 : index + 2]
        if argument == "--json" and (not rest or (rest[0].startswith("-") and rest[0] != STANDARD_OUTPUT)):
            filled.append(STANDARD_OUTPUT)
    return filled
