"""Rows as tables for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from cgverify.bench.cases import Case
from cgverify.bench.measure import Timing
from cgverify.bench.rows import LEFT_OUT, OK, Row
from cgverify.bench.targets import Target, compute_targets

from rich.console import Console
from rich.markup import escape
from rich.table import Table

WIDTH = 140
"""Columns where the output is no terminal: a table there must not be cut."""

COLUMNS = (
    "peer",
    "executor",
    "whole\nus",
    "host\nus",
    "/thunder-\ngraphs",
    "/torch.\ncompile",
    "computation\nus",
    "host\nus",
    "/floor",
    "/thunder-\ngraphs",
    "first\nms",
    "ready\nms",
    "reserved\nMiB",
    "at first\nMiB",
)
"""`/peer` is the throughput time over that peer's."""


def make_console() -> Console:
    """A console as wide as the tables where it is no terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH)


def print_case(case: Case, rows: Sequence[Row], console: Console) -> None:
    """The table of one case, and a line for each row that has no times or a remark."""
    limits = ", ".join(
        f"{row.executor}: {row.limit}-limited" for row in rows if row.peer == "floor" and row.limit is not None
    )
    console.print(f"\n[bold]{escape(case.name)}[/]: {escape(case.about)}" + (f" (floor of {limits})" if limits else ""))
    remarks = {row.remark for row in rows}
    if len(remarks) == 1 and all(row.status == LEFT_OUT for row in rows):
        console.print(f"  left out: {escape(remarks.pop())}", soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in COLUMNS[:2] else "right", no_wrap=True)
    for row in rows:
        table.add_row(row.peer, row.executor or "-", *(_cells(row) if row.status == OK else [row.status]))
    console.print(table)
    for row in rows:
        if row.remark:
            where = f" with {row.executor}" if row.executor else ""
            console.print(f"  {row.peer}{where}: {escape(row.remark)}", soft_wrap=True)


def print_safety(rows: Sequence[Row], console: Console) -> None:
    """What safety costs: cgverify's regions against raw graphs of the same bodies."""
    measured = [(row, row.safety) for row in rows if row.safety is not None]
    if not measured:
        return
    console.print("\n[bold]what safety costs[/]: cgverify's region calls against raw graphs with the same copies")
    table = Table(box=None, pad_edge=False)
    for name in ("case", "executor", "regions", "region us", "bare us", "ratio", "region host us", "bare host us"):
        table.add_column(name, justify="left" if name in ("case", "executor") else "right")
    for row, cost in measured:
        ratio = cost.region.throughput / cost.bare.throughput
        numbers = (cost.region.throughput, cost.bare.throughput, ratio, cost.region.host, cost.bare.host)
        table.add_row(row.case, row.executor, str(cost.regions), *(_number(number) for number in numbers))
    console.print(table)


def print_targets(targets: Sequence[Target], console: Console) -> None:
    """Each figure that the project sets itself, its bound, and whether it is met."""
    if not targets:
        return
    console.print("\n[bold]targets[/]: at most the bound")
    table = Table(box=None, pad_edge=False)
    for name in ("figure", "case", "executor", "found", "bound", "met", "remark"):
        table.add_column(name, justify="right" if name in ("found", "bound") else "left")
    for target in targets:
        met = {True: "yes", False: "no", None: "-"}[target.met]
        numbers = (_number(target.figure), _number(target.bound))
        table.add_row(target.what, target.case, target.executor or "-", *numbers, met, escape(target.remark))
    console.print(table)


def render_json(machine: dict[str, str], rows: Sequence[Row]) -> str:
    """One object: the format's name and version, the machine, all fields of rows and targets; microseconds."""
    found = {
        "format": "cgverify-benchmark",
        "version": 1,
        "machine": machine,
        "rows": [asdict(row) for row in rows],
        "targets": [asdict(target) for target in compute_targets(rows)],
    }
    return json.dumps(found, indent=2) + "\n"


def _cells(row: Row) -> list[str]:
    return [
        *_timing(row.whole),
        _number(row.whole_to_thunder_graphs),
        _number(row.whole_to_compile),
        *_timing(row.computation),
        _number(row.to_floor),
        _number(row.to_thunder_graphs),
        _number(row.first_ms),
        _number(row.ready_ms),
        _mebibytes(row.reserved),
        _mebibytes(row.reserved_first),
    ]


def _timing(timing: Timing | None) -> tuple[str, str]:
    return ("-", "-") if timing is None else (_number(timing.throughput), _number(timing.host))


def _mebibytes(count: int | None) -> str:
    return _number(None if count is None else count / 2**20)


def _number(number: float | None) -> str:
    """Three digits that matter."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"
