"""``cgverify reproduce``: run one failure again."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from cgverify.commands.options import (
    STANDARD_OUTPUT,
    CommandError,
    Device,
    JsonOption,
    one_line_errors,
    write_json,
)

import typer


class Isolation(str, Enum):
    """Whether a program is judged in a child process."""

    auto = "auto"
    always = "always"
    never = "never"


EXIT_CODES = {"ok": 0, "fail": 1, "incomparable": 2}


def reproduce(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A program file (.json) or a reproducer script (.py).")],
    target: Annotated[
        str | None, typer.Option(help="For a program file: cgverify (default), thunder, none, module:attribute.")
    ] = None,
    device: Annotated[Device | None, typer.Option(help="For a program file: auto (default), emulated, cuda.")] = None,
    blame: Annotated[
        bool, typer.Option("--blame", help="Graph the regions one by one and name the one that flips the verdict.")
    ] = False,
    isolate: Annotated[
        Isolation | None, typer.Option(help="In a child process, which may crash: auto (default), always, never.")
    ] = None,
    json_file: JsonOption = None,
) -> int:
    """Run one failure again: 0 it does not show, 1 it does, 2 it cannot run here."""
    from cgverify.loading import CheckError
    from cgverify.reproducing import reproduce_program, reproduce_script

    with one_line_errors(CheckError):
        if file.endswith(".py"):
            if target or device or json_file or blame or isolate:
                raise CommandError(
                    f"{file} is a script with a target and a device of its own: drop --target, --device, --blame, "
                    "--isolate and --json, or give the program file beside it"
                )
            return reproduce_script(file)
        found = reproduce_program(
            file,
            target=target or "cgverify",
            device=(device or Device.auto).value,
            blame=blame,
            isolation=(isolate or Isolation.auto).value,
        )
    verdict = found.verdict
    if json_file is not None:
        told = {"status": verdict.status, "oracle": found.oracle, "invariant": verdict.invariant}
        write_json(
            "reproduction",
            {**told, "evidence": verdict.evidence, "source": found.source, "blame": found.blame},
            json_file,
        )
    if json_file != STANDARD_OUTPUT:
        print(found.source)
        print(f"{verdict.status}: {found.oracle}: {verdict.invariant} {verdict.evidence}".rstrip())
        if found.blame:
            print(found.blame)
    return EXIT_CODES[verdict.status]
