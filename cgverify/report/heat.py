"""A heat map of which operation feeds which, as few SVG paths: one for each level of heat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LEVELS = 5
SHOWN = 120
"""Operations on each side at most, the most used first: more could not be read."""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Cells of one pixel, to be scaled.

    Attributes:
        names: operations, along both sides.
        paths: for each level from 1, the cells of it, as SVG path data.
        bounds: for each level, the smallest count of it.
        rows: for each operation, `column:count` of the cells that are not empty, joined by spaces.
        met: how many of the pairs shown were met.
    """

    names: tuple[str, ...]
    paths: tuple[str, ...]
    bounds: tuple[int, ...]
    rows: tuple[str, ...]
    met: int

    @property
    def pairs(self) -> int:
        """How many pairs are shown."""
        return len(self.names) ** 2


def make_heat_map(operations: Mapping[str, int], pairs: Sequence[tuple[str, str, int]]) -> HeatMap:
    """Arrange counts of pairs; levels are powers of the largest count.

    Args:
        operations: how often each was met.
        pairs: maker, user, and how often the one fed the other.
    """
    names = tuple(name for name, _ in Counter(operations).most_common(SHOWN))
    places = {name: place for place, name in enumerate(names)}
    counts = {(places[a], places[b]): n for a, b, n in pairs if a in places and b in places and n > 0}
    largest = max(counts.values(), default=1)
    bounds = tuple(max(1, round(largest ** (level / LEVELS))) if level else 1 for level in range(LEVELS))
    level_of = {cell: sum(count >= bound for bound in bounds) for cell, count in counts.items()}
    paths = tuple(
        _path(sorted(cell for cell, level in level_of.items() if level == wanted)) for wanted in range(1, LEVELS + 1)
    )
    rows = tuple(
        " ".join(f"{column}:{counts[row, column]}" for column in range(len(names)) if (row, column) in counts)
        for row in range(len(names))
    )
    return HeatMap(names, paths, bounds, rows, len(counts))


def _path(cells: Sequence[tuple[int, int]]) -> str:
    """Cells (row, column) in order as path data, neighbours in a row as one."""
    parts: list[str] = []
    index = 0
    while index < len(cells):
        row, column = cells[index]
        width = 1
        while index + width < len(cells) and cells[index + width] == (row, column + width):
            width += 1
        parts.append(f"M{column} {row}h{width}v1h-{width}z")
        index += width
    return "".join(parts)
