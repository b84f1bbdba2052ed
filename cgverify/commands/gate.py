"""``cgverify gate``: run fuzz targets as a gate of CI."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cgverify.commands.options import (
    STANDARD_OUTPUT,
    CommandError,
    Device,
    DeviceOption,
    JsonOption,
    one_line_errors,
    write_json,
)
from cgverify.wording import counted

import typer

if TYPE_CHECKING:
    from cgverify.gate import Result


class Profile(str, Enum):
    """How much runs."""

    gate = "gate"
    dev = "dev"
    nightly = "nightly"


def gate(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the fuzz targets.")] = Path("fuzz"),
    target: Annotated[str, typer.Option(help="cgverify, thunder, none, or module:attribute.")] = "cgverify",
    device: DeviceOption = Device.auto,
    programs: Annotated[int | None, typer.Option(help="Drawn by each fuzz target; default by profile.", min=1)] = None,
    seconds: Annotated[float | None, typer.Option(help="That each fuzz target may take.", min=1)] = None,
    profile: Annotated[Profile, typer.Option(help="gate draws the same programs each time.")] = Profile.gate,
    workers: Annotated[str, typer.Option(help="Processes; auto: by GPUs, else by cores.")] = "auto",
    json_file: JsonOption = None,
) -> int:
    """Fuzz, and say whether a change may pass: 0 open, 1 closed.

    Closed too if no program ran, or with --device cuda none on a GPU. Scripts, journal, a JUnit file and a page go to
    the folder .cgverify; in a GitHub workflow there are annotations and a summary as well.
    """
    from cgverify.gate import GateError, Request, publish, run_gate

    if workers != "auto" and not workers.isdecimal():
        raise CommandError(f"--workers {workers} is neither auto nor a number")
    options = {"programs": programs, "seconds": seconds, "profile": profile.value}
    silent = json_file == STANDARD_OUTPUT
    with one_line_errors(GateError):
        found = run_gate(Request(folder, target, device.value, workers, options, quiet=silent))
    publish(found)
    if json_file is not None:
        facts = {"target": found.target, "device": found.device, "problems": list(found.problems)}
        write_json("gate", {**facts, "programs": found.programs, "failures": found.failures}, json_file)
    if not silent:
        _print(found)
    return 1 if found.problems else 0


def _print(found: Result) -> None:
    from cgverify.gate import render_annotations

    if os.environ.get("GITHUB_ACTIONS") == "true":
        print(*render_annotations(found), sep="\n")
    for problem in found.problems:
        print(f"closed: {problem}")
    if not found.problems:
        print(f"open: {counted(found.programs, 'program')} on {found.device}, no failure")
