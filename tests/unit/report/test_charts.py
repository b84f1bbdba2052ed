"""Scales, ticks and heat maps, and whether the colours they are drawn in can be told from the paper."""

from __future__ import annotations

import re
from importlib import resources
from itertools import product

from cgverify.report.charts import Point, Scale, Series, make_chart, render_number
from cgverify.report.heat import SHOWN, make_heat_map

import pytest


@pytest.mark.parametrize(("value", "pixel"), [(1, 0), (10, 50), (100, 100)])
def test_equal_ratios_are_equal_steps(value: float, pixel: float) -> None:
    """On a logarithmic scale ten times as much is as far each time."""
    assert Scale(1, 100, 0, 100).place(value) == pixel


@pytest.mark.parametrize(
    ("low", "high", "log", "labels"),
    [
        (0.9, 1100, True, ["1", "10", "100", "1k"]),
        (2, 9, True, ["2", "5"]),
        (1, 50, True, ["1", "3", "10", "30"]),
        (0, 160, False, ["0", "50", "100", "150"]),
        (0, 0.7, False, ["0", "0.2", "0.4", "0.6"]),
        (2e6, 2.4e9, True, ["3M", "10M", "30M", "100M", "300M", "1G"]),
    ],
)
def test_ticks_are_round(low: float, high: float, log: bool, labels: list[str]) -> None:
    """Ticks stand at round values within the scale, at least four where there is room."""
    assert [label for _, label in Scale(low, high, 0, 1, log).ticks()] == labels


def test_chart_holds_all_points() -> None:
    """Every point of every series lies within the plot, and the larger value is higher up."""
    series = [Series("a", 0, (Point(2, 5, ""), Point(256, 4000, ""))), Series("b", 1, (Point(16, 60, ""),))]
    chart = make_chart("title", "x", "y", series)
    assert chart is not None
    placed = [point for one in chart.series for point in one.points]
    assert all(chart.x.begin <= point.x <= chart.x.end and chart.y.end <= point.y <= chart.y.begin for point in placed)
    assert placed[1].y < placed[2].y < placed[0].y


def test_nothing_measured_is_no_chart() -> None:
    """Series without points make no chart."""
    assert make_chart("title", "x", "y", [Series("a", 0, ())]) is None


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.25, "0.25"), (12.34, "12.3"), (1000, "1k"), (2.5e6, "2.5M")])
def test_numbers_are_short(value: float, text: str) -> None:
    """Three digits that matter, and a letter for thousands and millions."""
    assert render_number(value) == text


def cells(path: str) -> set[tuple[int, int]]:
    """The cells (row, column) that path data covers."""
    runs = re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path)
    assert "".join(f"M{x} {y}h{w}v1h-{back}z" for x, y, w, back in runs) == path
    return {(int(y), int(x) + k) for x, y, w, _ in runs for k in range(int(w))}


def test_heat_map_has_each_pair_once() -> None:
    """Each pair that was met is in the path of its level, and in its row with its count."""
    operations = {"mul": 9, "add": 5, "sum": 1}
    heat = make_heat_map(operations, [("mul", "mul", 1), ("mul", "add", 1), ("add", "sum", 100), ("sum", "mul", 0)])
    assert heat.names == ("mul", "add", "sum")
    assert [cells(path) for path in heat.paths] == [{(0, 0), (0, 1)}, set(), set(), set(), {(1, 2)}]
    assert heat.rows == ("0:1 1:1", "2:100", "")
    assert (heat.met, heat.pairs) == (3, 9)


def test_heat_map_keeps_the_most_used() -> None:
    """Of many operations those used most are shown."""
    heat = make_heat_map({f"op{k}": k for k in range(SHOWN + 50)}, [])
    assert heat.names[0] == f"op{SHOWN + 49}"
    assert len(heat.names) == SHOWN


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_can_be_read() -> None:
    """Every colour of text has a contrast of 4.5 with every background, in light and in dark (WCAG 2, AA)."""
    style = (resources.files("cgverify.report") / "templates" / "base.css").read_text()
    palette = {name: (light, dark) for name, light, dark in re.findall(r"--(\w+): light-dark\((\S+), (\S+)\)", style)}
    texts = [name for name in palette if name not in ("bg", "panel", "sunk", "rule")]
    assert len(texts) == 14
    poor = [
        (text, ground, mode)
        for text, ground, mode in product(texts, ("bg", "panel", "sunk"), (0, 1))
        if contrast(palette[text][mode], palette[ground][mode]) < 4.5
    ]
    assert poor == []
