"""The emitted trace is a valid program with the original's inputs and outputs; nothing runs."""

from __future__ import annotations

from typing import Any


def test_structure(fuzz: Any, shard: int) -> None:
    """No use after del, valid Python, inputs and outputs preserved, and no false alarm from the verifier."""
    fuzz("structure", shard)
