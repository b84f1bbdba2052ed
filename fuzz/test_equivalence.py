"""A caller cannot tell the transformed program from Thunder without graphs, bit for bit, over several calls."""

from __future__ import annotations

from typing import Any


def test_equivalence(fuzz: Any, shard: int) -> None:
    """Results, writes, held results, aliasing and generator positions are those of the un-graphed trace."""
    fuzz("equivalence", shard)


def test_gradients(fuzz: Any, shard: int) -> None:
    """Through thunder.jit, gradients are those of the un-graphed function, bit for bit."""
    fuzz("gradients", shard)
