"""One function under one transform, ready to be drawn: its rewrites, their verdicts, the lines of the user's source."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgverify.api import CUDAGraphTransform
from cgverify.checking import Watched, watch_function
from cgverify.diagnostics import Report
from cgverify.ir import view_trace
from cgverify.plan import CapturePlan
from cgverify.report.lifetimes import Lifetime, compute_lifetimes
from cgverify.report.picture import Line, Picture, compute_picture
from cgverify.verifier import verify_each_trace


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of the user's code that ops come from.

    Attributes:
        place: `file:line` as the traces say it.
        file: its file, short where it lies below the working directory.
        number: from 1.
        text: the line; empty if the file is not to be had.
        regions: numbers of the regions that ops of it are in.
        outside: how many ops of it stay outside.
    """

    place: str
    file: str
    number: int
    text: str
    regions: tuple[int, ...]
    outside: int


@dataclass(frozen=True, slots=True)
class Sheet:
    """One rewrite, with all that is drawn of it.

    Attributes:
        title: `forward`, `backward`, or the trace's name.
        picture: lines, partners, regions.
        lifetimes: of the values of the trace after.
        sources: the user's lines, in order.
    """

    title: str
    picture: Picture
    lifetimes: tuple[Lifetime, ...]
    sources: tuple[SourceLine, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """One function under one transform.

    Attributes:
        subject: such as ``model.py:step under cgverify on emulated``.
        location: ``FILE.py:FUNC``.
        sheets: one for each rewrite.
        reports: what the verifier says of each.
    """

    subject: str
    location: str
    sheets: tuple[Sheet, ...]
    reports: tuple[Report, ...]

    @property
    def ok(self) -> bool:
        """Whether every rewrite was proved."""
        return all(report.ok for report in self.reports)

    @property
    def conditions(self) -> str:
        """The subject without the location: under which transform, on what."""
        return self.subject.removeprefix(self.location).strip()


def show_function(location: str, *, target: str = "cgverify", inputs: str | None = None, device: str = "auto") -> Shown:
    """Compile a function under a transform, judge each rewrite, and arrange what is to be drawn.

    Args:
        location: ``FILE.py:FUNC``.
        target: as for `cgverify.checking.watch_function`, like the rest.
        inputs: see there.
        device: see there.

    Raises:
        CheckError: something is missing or cannot be run.
    """
    watched = watch_function(location, target=target, inputs=inputs, device=device)
    sheets = tuple(
        _sheet(compute_picture(view_trace(before), view_trace(after), plan), index, len(watched.pairs))
        for index, ((before, after), plan) in enumerate(zip(watched.pairs, _plans(watched), strict=True))
    )
    return Shown(watched.subject, location, sheets, tuple(verify_each_trace(watched.pairs)))


def _plans(watched: Watched) -> Sequence[CapturePlan | None]:
    """The plan of each rewrite; None where the transform makes none."""
    transform = watched.transform
    plans = transform.report().plans if isinstance(transform, CUDAGraphTransform) else ()
    return plans if len(plans) == len(watched.pairs) else [None] * len(watched.pairs)


def _sheet(picture: Picture, index: int, count: int) -> Sheet:
    title = picture.name
    if count == 2:
        title = "backward" if picture.name.startswith("backward") else "forward" if index == 0 else picture.name
    return Sheet(title, picture, compute_lifetimes(picture), tuple(_sources(picture.after)))


def _sources(lines: Sequence[Line]) -> list[SourceLine]:
    places: dict[tuple[str, int], list[Line]] = {}
    for line in lines:
        if line.source is not None and line.kind == "op":
            file, _, number = line.source.rpartition(":")
            if number.isdigit():
                places.setdefault((file, int(number)), []).append(line)
    return [
        SourceLine(
            f"{file}:{number}",
            shorten(file),
            number,
            linecache.getline(file, number).rstrip(),
            tuple(sorted({line.region for line in found if line.region is not None})),
            sum(line.region is None for line in found),
        )
        for (file, number), found in sorted(places.items())
    ]


def shorten(file: str) -> str:
    """A file's path from the working directory, or its name alone where it lies elsewhere."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return Path(file).name
