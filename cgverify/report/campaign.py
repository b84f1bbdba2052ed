"""The page of a campaign: what ``cgverify campaign merge`` wrote, arranged to be drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from cgverify import __version__
from cgverify.report.charts import Chart, Point, Series, make_chart, render_number
from cgverify.report.heat import make_heat_map
from cgverify.report.page import render_page
from cgverify.report.score import MutationScore

FORMAT = "cgverify-campaign"

BINS = 48
RARE = 24
"""How many of the least met operations are named."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One distinct failure.

    Attributes:
        key: its name.
        invariant: what broke.
        kinds: the operations of the shrunk program.
        evidence: both sides in words.
        source: the shrunk program as Python.
        script: the reproducer's text.
        met: how often it was met.
    """

    key: str
    invariant: str
    kinds: tuple[str, ...]
    evidence: str
    source: str
    script: str
    met: int


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, a count, and the count in percent of the largest."""

    name: str
    count: int
    share: float


def render_campaign(found: Mapping[str, Any], score: MutationScore | None = None) -> str:
    """The page of a campaign, as HTML.

    Args:
        found: the object that ``cgverify campaign merge`` wrote.
        score: of planted faults, to be shown too.

    Raises:
        KeyError, TypeError, ValueError: it is not such an object.
        PageError: jinja2 is not installed.
    """
    totals, samples = found["totals"], found["samples"]
    coverage = totals["coverage"]
    operations: dict[str, int] = dict(coverage["operations"])
    met: dict[str, int] = dict(totals["met"])
    failures = sorted((_read_failure(one, met) for one in totals["failures"]), key=lambda f: (-f.met, f.key))
    return render_page(
        "campaign",
        campaign=found["campaign"],
        totals=totals,
        failures=failures,
        statuses=_statuses(totals["statuses"]),
        throughput=_draw_throughput(samples),
        span=_span(samples),
        heat=make_heat_map(operations, [(a, b, n) for a, b, n in coverage["pairs"]]),
        pairs=len(coverage["pairs"]),
        rare=Counter(operations).most_common()[: -RARE - 1 : -1],
        features=list(_bars(coverage["features"])),
        machines=[*map(str, found["devices"])],
        versions=[", ".join(f"{name} {value}" for name, value in entry.items()) for entry in found["versions"]],
        recovered=found["recovered"],
        score=score,
        version=__version__,
        number=render_number,
    )


def _read_failure(one: Mapping[str, Any], met: Mapping[str, int]) -> Failure:
    return Failure(
        key=str(one["key"]),
        invariant=str(one["invariant"]),
        kinds=tuple(map(str, one["kinds"])),
        evidence=str(one["evidence"]),
        source=str(one["source"]),
        script=str(one["script"]),
        met=met.get(one["key"], 0),
    )


def _statuses(statuses: Mapping[str, Mapping[str, int]]) -> tuple[tuple[str, ...], list[tuple[str, list[int]]]]:
    """A table: the names of the columns, and for each property its counts."""
    columns = tuple(dict.fromkeys(name for counts in statuses.values() for name in counts))
    ordered = tuple(sorted(columns, key=lambda name: (name != "programs", name not in ("ok", "fail"), name)))
    return ordered, [(name, [counts.get(column, 0) for column in ordered]) for name, counts in statuses.items()]


def _draw_throughput(samples: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Programs per second over time: each part's programs spread evenly over the time it took."""
    if not samples:
        return None
    begin = min(sample["begun"] for sample in samples)
    end = max(sample["begun"] + sample["seconds"] for sample in samples)
    width = max(end - begin, 1e-9) / BINS
    programs = [0.0] * BINS
    for sample in samples:
        first = sample["begun"] - begin
        for index in range(BINS):
            overlap = min(first + sample["seconds"], (index + 1) * width) - max(first, index * width)
            if overlap > 0:
                programs[index] += sample["programs"] * overlap / max(sample["seconds"], 1e-9)
    points = tuple(
        Point((index + 0.5) * width, count / width, f"{count / width:.1f} programs/s")
        for index, count in enumerate(programs)
    )
    series = Series("all shards", 0, points)
    return make_chart(
        "Programs per second", "seconds since the start", "programs/s", [series], log_x=False, log_y=False
    )


def _span(samples: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """When it began, how long it took, how long all parts together took, and on how many machines."""
    if not samples:
        return {}
    begin = min(sample["begun"] for sample in samples)
    end = max(sample["begun"] + sample["seconds"] for sample in samples)
    return {
        "began": datetime.fromtimestamp(begin, timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": f"{end - begin:,.0f}",
        "work": f"{sum(sample['seconds'] for sample in samples):,.0f}",
        "machines": str(len({sample["host"] for sample in samples})),
        "rate": render_number(sum(sample["programs"] for sample in samples) / max(end - begin, 1e-9)),
    }


def _bars(counts: Mapping[str, int]) -> Iterator[Bar]:
    largest = max(counts.values(), default=1) or 1
    for name, count in sorted(counts.items(), key=lambda entry: (entry[0].split(" ")[0], -entry[1])):
        yield Bar(name, count, round(100 * count / largest, 1))
