"""``cgverify show``: draw what a transform makes of a function."""

from __future__ import annotations

from typing import Annotated

from cgverify.commands.options import (
    Device,
    DeviceOption,
    InputsOption,
    LocationArgument,
    TargetOption,
    one_line_errors,
    write_text,
)

import typer


def show(
    location: LocationArgument,
    target: TargetOption = "cgverify",
    inputs: InputsOption = None,
    device: DeviceOption = Device.auto,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write a page instead; needs jinja2.")] = None,
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
        shown = show_function(location, target=target, inputs=inputs, device=device.value)
        if html is None:
            print_partition(shown)
        else:
            write_text(html, render_partition(shown))
            print(f"{shown.subject}: {'proved' if shown.ok else 'not proved'}; drawn in {html}")
    return 0 if shown.ok else 1
