"""Rows as bars, through matplotlib, which the extra `report` installs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from cgverify.bench.measure import Timing
from cgverify.bench.peers import COMPILE, EAGER, FLOOR, PEERS
from cgverify.bench.rows import Row


class PlotError(Exception):
    """The plot cannot be drawn; the message says why and what to do."""


def check_plot() -> None:
    """Finds out before a run whether a plot can be drawn.

    Raises:
        PlotError: matplotlib is missing.
    """
    if find_spec("matplotlib") is None:
        raise PlotError("cannot draw a plot: matplotlib is not installed; pip install 'cgverify[report]'")


def save_plot(rows: Sequence[Row], path: str) -> None:
    """Draws, for each case and executor, the throughput time of each peer's computation over the floor's.

    Whole calls are drawn for eager and torch.compile. Cases without a floor are left out.

    Args:
        rows: of a whole run.
        path: where to write; its ending chooses the format, such as .svg or .png.

    Raises:
        PlotError: matplotlib cannot write the file.
    """
    floors = {(row.case, row.executor): row.computation for row in rows if row.peer == FLOOR and row.computation}
    figure = import_module("matplotlib.figure").Figure(figsize=(max(8.0, 1.4 * len(floors)), 5.0), layout="constrained")
    axes = figure.add_subplot()
    shown = [peer for peer in PEERS if peer != FLOOR]
    for k, peer in enumerate(shown):
        heights = [_height(rows, peer, case, executor, floor) for (case, executor), floor in floors.items()]
        places = [place + (k - len(shown) / 2 + 0.5) * 0.8 / len(shown) for place in range(len(floors))]
        axes.bar(places, heights, 0.8 / len(shown), label=peer)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("time over the floor's")
    axes.set_xticks(range(len(floors)), [f"{case}\n{executor}" for case, executor in floors], rotation=30, ha="right")
    axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise PlotError(f"cannot write {path}: {error}; give a path that ends in .svg, .png or .pdf") from error


def _height(rows: Sequence[Row], peer: str, case: str, executor: str, floor: Timing) -> float:
    """The bar of a peer; nan for none."""
    for row in rows:
        direct = row.peer in (EAGER, COMPILE)
        if row.peer == peer and row.case == case and (direct or row.executor == executor):
            timing = row.whole if direct else row.computation
            return timing.throughput / floor.throughput if timing else float("nan")
    return float("nan")
