"""A function's rewrites as the page draws them: tokens, marks, percentages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from cgverify import __version__
from cgverify.diagnostics import Diagnostic, Report
from cgverify.plan import InputRole
from cgverify.report.findings import find_by_line, group_findings
from cgverify.report.lifetimes import OWNERS, Lifetime
from cgverify.report.page import render_page
from cgverify.report.partition import Sheet, Shown, SourceLine
from cgverify.report.picture import Line, Picture, RegionBox
from cgverify.report.segments import Gap, Segment, find_gaps, find_segments

_NAME = re.compile(r"([A-Za-z_]\w*)")
_DEVICE = re.compile(r"(\S+) \w+\[")


@dataclass(frozen=True, slots=True)
class LineDrawing:
    """One line of a trace; names and keys are joined by spaces, and marks are what the verifier found there."""

    key: str
    number: str
    kind: str
    tokens: tuple[tuple[str, bool], ...]
    types: str
    reads: str
    defines: str
    partners: str
    region: int | None
    source: str | None
    reason: str
    alone: str
    marks: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class LifeDrawing:
    """A lifetime in percent of the trace, and in words."""

    name: str
    type: str
    owner: str
    left: float
    width: float
    held: float
    words: str
    roles: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class SheetDrawing:
    """All that the template draws of one rewrite."""

    id: str
    title: str
    name: str
    device: str
    ops: int
    copied: int | None
    regions: tuple[RegionBox, ...]
    left_out: tuple[Line, ...]
    segments: tuple[Segment, ...]
    gaps: tuple[Gap, ...]
    before: tuple[LineDrawing, ...]
    after: tuple[LineDrawing, ...]
    lifetimes: tuple[LifeDrawing, ...]
    bands: str
    sources: tuple[SourceLine, ...]


def render_partition(shown: Shown) -> str:
    """The page of one function under one transform, as HTML.

    Raises:
        PageError: jinja2 is not installed.
    """
    sheets = [draw_sheet(sheet, f"s{index}", shown.reports) for index, sheet in enumerate(shown.sheets)]
    groups = [tuple(group_findings(report)) for report in shown.reports]
    return render_page("partition", shown=shown, sheets=sheets, groups=groups, owners=OWNERS, version=__version__)


def draw_sheet(sheet: Sheet, identifier: str, reports: Sequence[Report] = ()) -> SheetDrawing:
    """Arrange one rewrite; `identifier` begins every id of it, and findings are put on the lines that they are at."""
    picture = sheet.picture
    device = _common_device(picture)
    names = {name for line in (*picture.before, *picture.after) for name in (*line.reads, *line.defines)}
    segments = tuple(find_segments(picture))
    findings = find_by_line(picture, reports)

    def draw(lines: Sequence[Line], alone: str) -> tuple[LineDrawing, ...]:
        return tuple(_draw_line(line, names, device, alone, findings.get(line.key, ())) for line in lines)

    return SheetDrawing(
        id=identifier,
        title=sheet.title,
        name=picture.name,
        device=device,
        ops=picture.ops,
        copied=_count_copied(picture),
        regions=picture.regions,
        left_out=picture.left_out,
        segments=segments,
        gaps=tuple(find_gaps(segments)),
        before=draw(picture.before, "not in the trace after"),
        after=draw(picture.after, "not in the trace before"),
        lifetimes=tuple(_draw_life(life, picture.after, device) for life in sheet.lifetimes),
        bands=_bands(picture.after),
        sources=sheet.sources,
    )


def _count_copied(picture: Picture) -> int | None:
    """How many inputs are copied in each call; None if a region does not say."""
    roles = [passed.role for region in picture.regions for passed in region.inputs]
    return None if "" in roles else roles.count(InputRole.COPIED.value)


def _draw_line(line: Line, names: set[str], device: str, alone: str, findings: tuple[Diagnostic, ...]) -> LineDrawing:
    types = " ".join(_without(device, type_) for _, type_ in line.types if type_) if line.kind != "region" else ""
    return LineDrawing(
        key=line.key,
        number=line.number,
        kind=line.kind,
        tokens=tuple((text, text in names) for text in _NAME.split(line.text) if text),
        types=types,
        reads=" ".join(line.reads),
        defines=" ".join(line.defines),
        partners=" ".join(line.partners),
        region=line.region,
        source=line.source,
        reason=line.reason,
        alone=alone if line.kind == "op" and not line.partners else "",
        marks=tuple(dict.fromkeys((found.code, found.severity.value, found.name) for found in findings)),
    )


def _draw_life(life: Lifetime, lines: Sequence[Line], device: str) -> LifeDrawing:
    share = 100 / max(len(lines), 1)
    held = max(life.freed, life.last)
    end = "" if held == life.last else f", held to line {lines[held].number}"
    words = f"needed from line {lines[life.born].number} to line {lines[life.last].number}{end}"
    return LifeDrawing(
        life.name,
        _without(device, life.type),
        life.owner,
        round(life.born * share, 2),
        round((life.last - life.born + 1) * share, 2),
        round((held - life.born + 1) * share, 2),
        words,
        life.roles,
    )


def _bands(lines: Sequence[Line]) -> str:
    """A CSS gradient that marks where the regions are along the trace."""
    stops, share = [], 100 / max(len(lines), 1)
    for region, group in groupby(enumerate(lines), key=lambda entry: entry[1].region):
        places = [place for place, _ in group]
        color = "transparent" if region is None else f"color-mix(in srgb, var(--c{region % 6}) 14%, transparent)"
        stops.append(f"{color} {places[0] * share:.2f}% {(places[-1] + 1) * share:.2f}%")
    return f"linear-gradient(to right, {', '.join(stops)})" if stops else "none"


def _common_device(picture: Picture) -> str:
    """The device of all tensors, empty if there are several."""
    types = [type_ for line in (*picture.before, *picture.after) for _, type_ in line.types]
    devices = {match[1] for type_ in types if (match := _DEVICE.match(type_))}
    return devices.pop() if len(devices) == 1 else ""


def _without(device: str, type_: str) -> str:
    return type_.removeprefix(f"{device} ") if device else type_
