"""The page of a benchmark: what ``cgverify bench --json`` wrote, as plots over the size of a case and as one table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cgverify import __version__
from cgverify.bench.peers import EAGER
from cgverify.report.charts import Chart, Point, Scale, Series, make_chart
from cgverify.report.page import render_page

FORMAT = "cgverify-benchmark"
VERSIONS = (1,)

WHOLE, COMPUTATION = "whole", "computation"

_CHAIN = re.compile(r"chain-(\d+)x(\d+)(?:-(\d+)out)?(?:-(\d+))?")


@dataclass(frozen=True, slots=True)
class Measured:
    """One peer on one case.

    Attributes:
        case: its name.
        executor: Thunder's; empty where there is none.
        peer: who was timed.
        status: `ok`, or why there are no times.
        remark: more about that.
        whole: microseconds of a whole call, None if not measured.
        whole_host: of those, how long the host is busy.
        computation: microseconds of the computation alone.
        to_floor: the computation over the floor's.
        first_ms: milliseconds of the first call.
        reserved: mebibytes reserved at most.
    """

    case: str
    executor: str
    peer: str
    status: str
    remark: str
    whole: float | None
    whole_host: float | None
    computation: float | None
    to_floor: float | None
    first_ms: float | None
    reserved: float | None


@dataclass(frozen=True, slots=True)
class CaseRows:
    """All rows of one case."""

    name: str
    rows: tuple[Measured, ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """One peer on the line of one case: percent along the line, and what to say."""

    number: int
    left: float
    words: str


@dataclass(frozen=True, slots=True)
class DotLine:
    """One case with one executor."""

    case: str
    executor: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True)
class DotPlot:
    """Cases over one logarithmic scale: ticks and their labels, where eager is, and the lines; in percent."""

    ticks: tuple[tuple[float, str], ...]
    one: float
    lines: tuple[DotLine, ...]


def render_benchmark(found: Mapping[str, Any]) -> str:
    """The page of a benchmark, as HTML.

    Args:
        found: the object that ``cgverify bench --json`` wrote.

    Raises:
        KeyError, TypeError, ValueError: it is not such an object.
        PageError: jinja2 is not installed.
    """
    rows = [_read_row(row) for row in found["rows"]]
    peers = list(dict.fromkeys(row.peer for row in rows))
    cases = [
        CaseRows(name, tuple(row for row in rows if row.case == name)) for name in dict.fromkeys(r.case for r in rows)
    ]
    return render_page(
        "benchmark",
        machine={str(name): str(value) for name, value in found["machine"].items()},
        peers=peers,
        plots=list(_charts(rows, peers)),
        dots=_compare_with_eager(rows, peers),
        cases=cases,
        targets=found.get("targets", ()),
        trouble=[row for row in rows if row.status != "ok"],
        version=__version__,
        show=render_time,
    )


def render_time(value: float | None) -> str:
    """A number for a table, a dash for none."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def size_of(case: str) -> tuple[int, int] | None:
    """Ops and inputs of a chain of small ops with one result; None for every other case."""
    match = _CHAIN.fullmatch(case)
    if match is None or match[3] or match[4]:
        return None
    return int(match[1]), int(match[2])


def _read_row(row: Mapping[str, Any]) -> Measured:
    whole, computation, reserved = row["whole"], row["computation"], row["reserved"]
    return Measured(
        case=str(row["case"]),
        executor=str(row["executor"]),
        peer=str(row["peer"]),
        status=str(row["status"]),
        remark=str(row["remark"]),
        whole=None if whole is None else float(whole["throughput"]),
        whole_host=None if whole is None else float(whole["host"]),
        computation=None if computation is None else float(computation["throughput"]),
        to_floor=None if row["to_floor"] is None else float(row["to_floor"]),
        first_ms=None if row["first_ms"] is None else float(row["first_ms"]),
        reserved=None if reserved is None else float(reserved) / 2**20,
    )


def _charts(rows: Sequence[Measured], peers: Sequence[str]) -> Iterator[Chart]:
    """For each executor: whole calls and computations, against ops and against inputs."""
    for executor in dict.fromkeys(row.executor for row in rows if row.executor):
        mine = [row for row in rows if row.executor in ("", executor) and size_of(row.case)]
        for what, words in ((WHOLE, "whole call"), (COMPUTATION, "computation only")):
            for axis, label in enumerate(("ops", "inputs")):
                series = [
                    Series(peer, number, tuple(_points(mine, peer, what, axis))) for number, peer in enumerate(peers)
                ]
                title = f"{words.capitalize()} against {label}, executor {executor}"
                chart = make_chart(title, f"{label} of the chain", "us per call", series)
                if chart is not None and len({point.x for one in series for point in one.points}) > 1:
                    yield chart


def _points(rows: Sequence[Measured], peer: str, what: str, axis: int) -> Iterator[Point]:
    found = []
    for row in rows:
        size, time = size_of(row.case), getattr(row, what)
        if row.peer == peer and size is not None and time:
            found.append(Point(size[axis], time, f"{row.case}, {render_time(time)} us"))
    yield from sorted(found, key=lambda point: (point.x, point.y))


def _compare_with_eager(rows: Sequence[Measured], peers: Sequence[str]) -> DotPlot | None:
    """Every case on one scale: the whole call of each peer over eager's; None if there is nothing to compare."""
    ratios: dict[tuple[str, str], list[tuple[Measured, float]]] = {}
    for row, eager in _beside_eager(rows):
        for executor in dict.fromkeys(r.executor for r in rows if r.case == row.case and r.executor):
            if row.whole and row.executor in ("", executor):
                ratios.setdefault((row.case, executor), []).append((row, row.whole / eager))
    values = [ratio for entries in ratios.values() for _, ratio in entries]
    if not values:
        return None
    scale = Scale(min(*values, 0.5) / 1.1, max(*values, 2.0) * 1.1, 0, 100)
    lines = tuple(
        DotLine(case, executor, tuple(_dot(row, ratio, scale, peers) for row, ratio in entries))
        for (case, executor), entries in ratios.items()
    )
    return DotPlot(scale.ticks(), scale.place(1), lines)


def _beside_eager(rows: Sequence[Measured]) -> Iterator[tuple[Measured, float]]:
    """Each row with the time of eager's whole call, where that was measured."""
    eager = {row.case: row.whole for row in rows if row.peer == EAGER and row.whole}
    for row in rows:
        if row.case in eager:
            yield row, eager[row.case]


def _dot(row: Measured, ratio: float, scale: Scale, peers: Sequence[str]) -> Dot:
    words = f"{row.peer}: {ratio:.2f} of eager, {render_time(row.whole)} us"
    return Dot(peers.index(row.peer), scale.place(ratio), words)
