"""``cgverify show``: draw what a transform makes of a function."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cgverify.commands.options import (
    STANDARD_OUTPUT,
    Device,
    DeviceOption,
    InputsOption,
    JsonOption,
    LocationArgument,
    TargetOption,
    one_line_errors,
    only_json,
    write_json,
    write_text,
)
from cgverify.progress import show_waiting

import typer

if TYPE_CHECKING:
    from cgverify.report.partition import Shown


def show(
    location: LocationArgument,
    target: TargetOption = "cgverify",
    inputs: InputsOption = None,
    device: DeviceOption = Device.auto,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write a page instead; needs jinja2.")] = None,
    json_file: JsonOption = None,
) -> int:
    """Draw what a transform makes of a function: 0 proved, 1 not.

    Both traces, regions, what stands between them and why, how long values live and who owns their memory.
    """
    from cgverify.loading import CheckError
    from cgverify.report.drawing import render_partition
    from cgverify.report.page import PageError
    from cgverify.report.partition import show_function
    from cgverify.report.terminal import print_partition

    with one_line_errors(CheckError, PageError):
        with only_json(json_file), show_waiting(f"compiling {location}"):
            shown = show_function(location, target=target, inputs=inputs, device=device.value)
        if html is not None:
            write_text(html, render_partition(shown))
    if json_file is not None:
        write_json("partition", _describe(shown), json_file)
    if json_file == STANDARD_OUTPUT:
        pass
    elif html is None:
        print_partition(shown)
    else:
        print(f"{shown.subject}: {'proved' if shown.ok else 'not proved'}; drawn in {html}")
    return 0 if shown.ok else 1


def _describe(shown: Shown) -> dict[str, Any]:
    reports = [json.loads(report.render("json")) for report in shown.reports]
    return {"subject": shown.subject, "ok": shown.ok, "sheets": [asdict(s) for s in shown.sheets], "reports": reports}
