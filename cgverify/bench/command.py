"""The work of ``cgverify bench``: chooses cases, runs them, prints each table as it is done, writes JSON and plot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cgverify.bench.cases import choose_cases
from cgverify.bench.comparison import cases_for, choose_settings, describe_machine, run_cases
from cgverify.bench.peers import CGVERIFY, COPYING
from cgverify.bench.plot import check_plot, save_plot
from cgverify.bench.report import make_console, print_case, print_safety, print_targets, render_json
from cgverify.bench.rows import FAILED, WRONG, Row
from cgverify.bench.targets import compute_targets
from cgverify.checking import open_device
from cgverify.progress import show_progress

STANDARD_OUTPUT = "-"
EMULATED = "emulated"


class OutputError(Exception):
    """A file cannot be written; found out before the run."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asks of ``cgverify bench``.

    Attributes:
        device: `auto`, `emulated` or `cuda`.
        cases: comma-separated names or patterns; None for all, or for the quick ones.
        quick: whether to measure less.
        seconds: limit after which nothing new is begun; None for the usual one.
        json: where to write the rows; `-` prints them in place of the tables.
        plot: where to draw the bars.
    """

    device: str = "auto"
    cases: str | None = None
    quick: bool = False
    seconds: float | None = None
    json: str | None = None
    plot: str | None = None


def run_bench(request: Request) -> list[Row]:
    """Runs, prints and writes what was asked for.

    Raises:
        CheckError: there is no such device.
        UnknownCaseError: a pattern matches no case.
        PlotError: matplotlib is missing, or cannot write the plot.
        OutputError: the folder of a file does not exist.
    """
    silent = request.json == STANDARD_OUTPUT
    for path in (None if silent else request.json, request.plot):
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise OutputError(f"cannot write {path}: its folder does not exist; make it first")
    if request.plot is not None:
        check_plot()
    console = make_console()
    rows: list[Row] = []
    with open_device(request.device) as device:
        cases = choose_cases(cases_for(device), request.cases, quick=request.quick)
        machine = describe_machine(device)
        if not silent:
            console.print(", ".join(f"{name} {found}" for name, found in machine.items()), soft_wrap=True)
        settings = choose_settings(device, quick=request.quick, seconds=request.seconds)
        with show_progress("bench", len(cases), unit="cases") as progress:
            for case, found in run_cases(cases, settings):
                rows += found
                if not silent:
                    print_case(case, found, console)
                    if request.json is not None:  # after each case, so that a run cut short leaves what it found
                        Path(request.json).write_text(render_json(machine, rows), encoding="utf-8")
                progress.advance(failed=sum(row.status in (WRONG, FAILED) for row in found))
    if silent:
        print(render_json(machine, rows), end="")
    else:
        print_safety(rows, console)
        if device != EMULATED:
            print_targets(compute_targets(rows), console)
    if request.plot is not None:
        save_plot(rows, request.plot)
    return rows


def has_fault(rows: list[Row]) -> bool:
    """Whether cgverify gave a wrong result or failed."""
    return any(row.peer in (CGVERIFY, COPYING) and row.status in (WRONG, FAILED) for row in rows)
