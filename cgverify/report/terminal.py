"""One function under one transform as text for a terminal; without colours where there is none."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.report.drawing import LifeDrawing, SheetDrawing, draw_sheet
from cgverify.report.lifetimes import OWNERS
from cgverify.report.partition import Shown
from cgverify.report.segments import short_place

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 110
"""Columns where the output is no terminal."""

COLOURS = ("blue", "yellow", "green", "magenta", "cyan", "red")
STRIP = 40
MARKS = {"caller": "█", "graph": "▒", "call": "─"}


def print_partition(shown: Shown, console: Console | None = None) -> None:
    """Print each rewrite, and what the verifier says.

    Args:
        shown: what to print.
        console: where; standard output if None.
    """
    console = console or _console()
    for index, sheet in enumerate(shown.sheets):
        drawing = draw_sheet(sheet, f"s{index}", shown.reports)
        graphed = drawing.ops - len(drawing.left_out)
        regions = f"{len(drawing.regions)} region{'' if len(drawing.regions) == 1 else 's'}"
        console.print(Text(f"\n{drawing.title}: {regions}, {graphed} of {drawing.ops} ops in graphs", "bold"))
        for text in _lines(drawing):
            console.print(text, soft_wrap=True)
        console.print()
        console.print(_lifetimes(drawing))
    for owner, meaning in OWNERS.items():
        console.print(Text(f"{MARKS[owner]} {owner}: {meaning}", "dim"), soft_wrap=True)
    for report in shown.reports:
        console.print()
        console.print(report.render(), markup=False, soft_wrap=True)
    console.print(Text(shown.subject, "dim"), soft_wrap=True)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH)


def _lines(drawing: SheetDrawing) -> Iterator[Text]:
    """The trace after, line by line: the region's bar, the line, and beneath an op outside its reason."""
    for line in drawing.after:
        style = COLOURS[line.region % len(COLOURS)] if line.region is not None else ""
        inner = line.region is not None and line.kind != "region"
        bar = "│ " if inner else "┌ " if line.region is not None else "  "
        quiet = "dim" if line.kind in ("del", "parameter", "unpack") else ""
        text = Text()
        text.append(f"{line.number:>6} ", "dim")
        text.append(bar, style or "dim")
        text.append(f"G{line.region} " if line.region is not None else "   ", style)
        text.append("".join(token for token, _ in line.tokens), "bold " + style if line.kind == "region" else quiet)
        text.append(f"  {line.types}" if line.types else "", "dim")
        yield text
        if line.reason:
            where = f"  [{short_place(line.source)}]" if line.source else ""
            yield Text(f"{'':>12}un-graphed: {line.reason}{where}", "yellow")
        for code, severity, name in line.marks:
            yield Text(f"{'':>12}{severity} {code}: {name}", "red" if severity == "error" else "yellow")


def _lifetimes(drawing: SheetDrawing) -> Table:
    table = Table(box=None, pad_edge=False, title=None)
    for name in ("value", "type", "owner", f"{'lives':<{STRIP}}", "role"):
        table.add_column(name, no_wrap=name != "role", overflow="ellipsis" if name == "type" else "fold")
    for life in drawing.lifetimes:
        roles = ", ".join(f"G{region} {role}" for region, role in life.roles)
        table.add_row(*(Text(cell) for cell in (life.name, life.type, life.owner, _strip(life), roles)))
    return table


def _strip(life: LifeDrawing) -> str:
    """The life along the trace: its owner's mark while it is needed, dots while it is only held."""
    begin = min(int(life.left * STRIP / 100), STRIP - 1)
    needed = max(begin + 1, round((life.left + life.width) * STRIP / 100))
    held = max(needed, round((life.left + life.held) * STRIP / 100))
    return " " * begin + MARKS[life.owner] * (needed - begin) + "·" * (held - needed)
