"""A rewritten trace from afar: its regions, and what stands between them and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from cgverify.report.picture import Line, Picture


@dataclass(frozen=True, slots=True)
class Segment:
    """A region, or the ops between two regions.

    Attributes:
        key: of its first line.
        region: its number; None for ops outside.
        ops: how many.
        names: of the ops, shortened.
        title: in words.
        lines: of the trace after.
    """

    key: str
    region: int | None
    ops: int
    names: str
    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """An op outside of regions: where, what, why."""

    key: str
    where: str
    text: str
    reason: str
    source: str | None


def find_segments(picture: Picture) -> Iterator[Segment]:
    """Regions and what stands between them, in order of execution; a trace's frame and its DELs do not count."""
    shown = [line for line in picture.after if line.kind in ("op", "region")]
    for region, group in groupby(shown, key=lambda line: line.region):
        lines = tuple(group)
        if region is None:
            symbols = list(dict.fromkeys(symbol_of(line) for line in lines))
            names = ", ".join(symbols[:3]) + ("…" if len(symbols) > 3 else "")
            reasons = "; ".join(dict.fromkeys(line.reason for line in lines if line.reason)) or "un-graphed"
            yield Segment(lines[0].key, None, len(lines), names, reasons, lines)
        else:
            ops = sum(line.kind == "op" for line in lines)
            name = picture.regions[region].name
            yield Segment(lines[0].key, region, ops, name, f"{name}: {ops} op{'' if ops == 1 else 's'}", lines)


def symbol_of(line: Line) -> str:
    """The symbol that a line calls, without its module."""
    called = line.text.partition(" = ")[2] or line.text
    return called.partition("(")[0].rpartition(".")[2] or line.text


def find_gaps(segments: Sequence[Segment]) -> Iterator[Gap]:
    """Each op outside of regions, with the regions that it stands between."""
    for index, segment in enumerate(segments):
        if segment.region is not None:
            continue
        earlier = segments[index - 1].region if index else None
        later = segments[index + 1].region if index + 1 < len(segments) else None
        if earlier is None and later is None:
            where = "no region"
        elif earlier is None:
            where = f"before G{later}"
        else:
            where = f"after G{earlier}" if later is None else f"between G{earlier} and G{later}"
        for line in segment.lines:
            yield Gap(line.key, where, line.text, line.reason, short_place(line.source) if line.source else None)


def short_place(source: str) -> str:
    """`file:line` without the folders."""
    return re.split(r"[/\\]", source)[-1]
