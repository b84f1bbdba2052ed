"""Words that depend on numbers."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """``1 graph``, ``2 graphs``: a number with the noun that it counts, which takes an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
