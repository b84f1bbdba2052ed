"""Lays a report out in lines of 100 columns: prose is wrapped, and an op is cut to fit beside its place and source."""

from __future__ import annotations

import os
import textwrap

WIDTH = 100
"""Columns of a line; only the path of a source file may take more."""


def wrap(prefix: str, text: str) -> list[str]:
    """The text after its prefix, in lines that fit, later ones indented; none if there is no text."""
    if not text:
        return []
    return textwrap.wrap(prefix + text, WIDTH, subsequent_indent=" " * min(len(prefix), 8), break_on_hyphens=False)


def lay_out(prefix: str, place: str, text: str, source: str) -> list[str]:
    """An op at its place, in lines that fit.

    The comment behind the op is dropped first; then the source goes to a line of its own, and the op loses its end.

    Args:
        prefix: what the line begins with.
        place: where the op stands in its trace.
        text: the op as the trace prints it, may be empty.
        source: the user's line, may be empty.
    """
    start = prefix + place
    plain = text.partition("  # ")[0]
    for shown in (text, plain):
        line = "  ".join(part for part in (start, shown, source) if part)
        if len(line) <= WIDTH:
            return [line]
    room = WIDTH - len(start) - 2
    shown = next((shown for shown in (text, plain) if len(shown) <= room), f"{plain[: max(room - 1, 0)]}…")
    return [f"{start}  {shown}".rstrip(), *([" " * len(prefix) + source] if source else [])]


def shorten(place: str) -> str:
    """A path, told from the working directory if it lies below it."""
    try:
        return place.removeprefix(os.path.join(os.getcwd(), ""))
    except FileNotFoundError:  # somebody removed the working directory
        return place
