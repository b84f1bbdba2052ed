"""Storms of captures: graphs that are captured again and again for little use. Each is warned of once.

A region is in a storm when its calls differ in what an entry is made of, such as strides; the warning names what
changes, and a remedy. A transform is when it drops graphs to make room for others before they were of use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from cgverify.plan import Region

CAPTURES = 16
"""Captures of one region without a word."""

TURNOVER = 64
"""Captures of one transform without a word; or four times its limit of graphs, if that is more."""

REPLAYS = 4
"""Replays per capture that make captures worth while."""

_REMEDIES = (
    ("the shape of {}", "pad to a few shapes"),
    ("the strides of {}", "pass one layout, by `.contiguous()` say"),
    ("the address of {}", "keep it where it is, by writing in place say"),
    ("the dtype of {}", "pass one dtype"),
    ("a switch of torch.backends", "set it once"),
)


def describe_thrash(captures: int, replays: int, max_graphs: int) -> str | None:
    """What to warn of at this capture of a transform, which is something once at most.

    Args:
        captures: of all regions of the transform, this one included.
        replays: of all its graphs.
        max_graphs: how many of these may be alive.
    """
    if captures != max(4 * max_graphs, TURNOVER) + 1 or replays >= REPLAYS * captures:
        return None
    return (
        f"{captures} graphs were captured and replayed {replays} times, while at most {max_graphs} may be alive: raise "
        "max_graphs, call with fewer shapes, or run rare calls in `cgverify.ungraphed()`"
    )


class CaptureWatch:
    """Counts the captures of one region.

    Args:
        region: the plan.
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        self._captures = 0
        self._descriptions: deque[Any] = deque(maxlen=CAPTURES)

    def note(self, description: Any, replays: int) -> str | None:
        """Counts a capture; returns what to warn of, which is something once at most.

        Args:
            description: of the entry, as `guards.describe` makes it.
            replays: of all graphs of the region so far.
        """
        self._captures += 1
        self._descriptions.append(description)
        if self._captures != CAPTURES + 1 or replays >= REPLAYS * self._captures:
            return None
        what, remedy = self._find_change()
        return (
            f"{self._region.name} was captured {self._captures} times and replayed {replays} times: between calls "
            f"{what} changed; {remedy}, or call without graphs in `cgverify.ungraphed()`"
        )

    def _find_change(self) -> tuple[str, str]:
        """What differs most often between the last entries, and what to do about it."""
        names = [entry.name for entry in self._region.inputs]
        switches, *arguments = zip(*self._descriptions, strict=True)
        aspects = [(_changing(names, arguments, part)) for part in (1, 2, 3, 0)]
        for (what, remedy), changing in zip(_REMEDIES, aspects, strict=False):
            if changing:
                return what.format(changing), remedy
        what, remedy = _REMEDIES[-1]
        return (what, remedy) if len(set(switches)) > 1 else ("nothing that is seen", "raise max_graphs")


def _changing(names: Sequence[str], arguments: Sequence[Sequence[Any]], part: int) -> str:
    """The inputs of which one part of the description changes, in words; at most three of them by name."""
    found = [f"`{name}`" for name, seen in zip(names, arguments, strict=True) if len({one[part] for one in seen}) > 1]
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
