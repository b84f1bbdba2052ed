"""Plots as plain numbers: scales, ticks, and marks in pixels, which a template draws as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 560, 340
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 28, 44


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to pixels, evenly or by their logarithm.

    Attributes:
        low: the smallest value shown; positive if `log`.
        high: the largest value shown, above `low`.
        begin: pixel of `low`.
        end: pixel of `high`.
        log: whether equal steps are equal ratios.
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = True

    def place(self, value: float) -> float:
        """The pixel of a value."""
        warp = math.log if self.log else float
        share = (warp(value) - warp(self.low)) / (warp(self.high) - warp(self.low))
        return round(self.begin + share * (self.end - self.begin), 1)

    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Pixels and labels of round values: 1, 2 and 5 times powers of ten on a short logarithmic scale."""
        values = _log_ticks(self.low, self.high) if self.log else _even_ticks(self.low, self.high)
        return tuple((self.place(value), render_number(value)) for value in values)


@dataclass(frozen=True, slots=True)
class Point:
    """One mark: where, and what to say about it."""

    x: float
    y: float
    words: str


@dataclass(frozen=True, slots=True)
class Series:
    """One thing measured: its points, joined by a line. `number` chooses its colour and the shape of its marks."""

    name: str
    number: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over two scales, ready to be drawn: all points are in pixels.

    Attributes:
        title: what it shows; also its name for those who cannot see it.
        x_label: beneath the plot.
        y_label: above the scale.
        x: the scale along the bottom.
        y: the scale along the left.
        series: what is drawn.
    """

    title: str
    x_label: str
    y_label: str
    x: Scale
    y: Scale
    series: tuple[Series, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return WIDTH, HEIGHT


def make_chart(
    title: str, x_label: str, y_label: str, series: Sequence[Series], *, log_x: bool = True, log_y: bool = True
) -> Chart | None:
    """Scale series to one chart; None if there is nothing to draw.

    Args:
        title: what it shows.
        x_label: what x is, with its unit.
        y_label: what y is, with its unit.
        series: points in values, positive where the scale is logarithmic.
        log_x: whether x is logarithmic.
        log_y: whether y is.
    """
    points = [point for entry in series for point in entry.points]
    if not points:
        return None
    x = Scale(*_range([point.x for point in points], log_x), LEFT, WIDTH - RIGHT, log_x)
    y = Scale(*_range([point.y for point in points], log_y), HEIGHT - BOTTOM, TOP, log_y)
    placed = tuple(
        Series(one.name, one.number, tuple(Point(x.place(p.x), y.place(p.y), p.words) for p in one.points))
        for one in series
        if one.points
    )
    return Chart(title, x_label, y_label, x, y, placed)


def render_number(value: float) -> str:
    """A short number: three digits that matter, and k, M or G."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def _range(values: Iterable[float], log: bool) -> tuple[float, float]:
    """Ends of a scale, a little beyond the values; an even scale begins at 0."""
    low, high = min(values := list(values)), max(values)
    if log:
        return low / 1.15, high * 1.15
    return 0.0, high * 1.05 or 1.0


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5)):
        ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
        if len(ticks) >= 4:
            break
    return ticks


def _even_ticks(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
