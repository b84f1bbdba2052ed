"""The whole way a user goes: `thunder.jit` traces the program's source, transforms and runs it."""

from __future__ import annotations

from typing import Any


def test_end_to_end(fuzz: Any, shard: int) -> None:
    """Through thunder.jit, results and gradients equal the un-graphed function's, and eager's within rounding."""
    fuzz("end-to-end", shard)
