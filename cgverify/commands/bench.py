"""``cgverify bench``: time cgverify beside its peers."""

from __future__ import annotations

from typing import Annotated

from cgverify.commands.options import Device, DeviceOption, JsonOption, one_line_errors

import typer


def bench(
    cases: Annotated[str | None, typer.Option(help='Names or patterns, as in "chain-6x2,block-*".')] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and samples: under a minute.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Begin nothing new after this long.", min=1)] = None,
    device: DeviceOption = Device.auto,
    json_file: JsonOption = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Draw the times; needs matplotlib.")] = None,
) -> int:
    """Time cgverify beside its peers, each checked against eager first: 1 if cgverify itself is wrong or fails.

    On the emulation it runs a few small cases, and the times say nothing.
    """
    from cgverify.bench.cases import UnknownCaseError
    from cgverify.bench.command import OutputError, Request, has_fault, run_bench
    from cgverify.bench.plot import PlotError
    from cgverify.loading import CheckError

    with one_line_errors(CheckError, OutputError, PlotError, UnknownCaseError):
        rows = run_bench(Request(device.value, cases, quick, seconds, json_file, plot))
    return 1 if has_fault(rows) else 0
