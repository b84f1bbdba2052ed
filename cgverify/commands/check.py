"""``cgverify check``: verify what a transform makes of a function."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from cgverify.commands.options import (
    STANDARD_OUTPUT,
    CommandError,
    Device,
    DeviceOption,
    InputsOption,
    JsonOption,
    LocationArgument,
    TargetOption,
    one_line_errors,
    only_json,
    write_json,
)
from cgverify.progress import show_waiting

import typer

if TYPE_CHECKING:
    from cgverify.checking import Checked


class Format(str, Enum):
    """How findings are written."""

    text = "text"
    json = "json"
    github = "github"


def check(
    location: LocationArgument,
    target: TargetOption = "cgverify",
    format: Annotated[Format, typer.Option(help="How findings are printed; json is --json.")] = Format.text,
    inputs: InputsOption = None,
    device: DeviceOption = Device.auto,
    json_file: JsonOption = None,
) -> int:
    """Verify what a transform makes of a function: 0 proved, 1 not.

    The function's arguments come from FUNC_inputs(device) in the same file, or from --inputs.
    """
    from cgverify.checking import check_function
    from cgverify.loading import CheckError

    if format is Format.json and json_file not in (None, STANDARD_OUTPUT):
        raise CommandError(f"--format json prints what --json {json_file} writes: drop one of them")
    where = STANDARD_OUTPUT if format is Format.json else json_file
    with one_line_errors(CheckError), only_json(where), show_waiting(f"checking {location}"):
        checked = check_function(location, target=target, inputs=inputs, device=device.value)
    if where is not None:
        write_json("check", _describe(checked), where)
    if where != STANDARD_OUTPUT:
        for line in _render(checked, format, location if target == "cgverify" else None):
            print(line)
    return 0 if checked.ok else 1


def _describe(checked: Checked) -> dict[str, Any]:
    reports = [json.loads(report.render("json")) for report in checked.reports]
    return {"subject": checked.subject, "ok": checked.ok, "regions": checked.regions, "reports": reports}


def _render(checked: Checked, format: Format, ours: str | None) -> Iterator[str]:
    """The reports and a line that sums them up; where `ours`, a location, got no region, that says where to look."""
    for report in checked.reports:
        found = report.render("github" if format is Format.github else "text")
        if found:
            yield found
    if format is Format.text:
        regions = f"{checked.regions} region{'' if checked.regions == 1 else 's'}"
        hint = f"; cgverify show {shlex.quote(ours)} says why" if ours is not None and not checked.regions else ""
        yield f"{checked.subject}: {'proved' if checked.ok else 'not proved'}, {regions}{hint}"
