"""Hashes of sets of programs: they add up, so shards, workers and order do not matter."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_MODULUS = 1 << 128


def hash_text(text: str) -> str:
    """Return the hash of one program's text: 32 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def add_hashes(hashes: Iterable[str]) -> str:
    """Return the hash of the union of sets, each counted as often as it comes: the sum of their hashes."""
    return f"{sum(int(text or '0', 16) for text in hashes) % _MODULUS:032x}"
