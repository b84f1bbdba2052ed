"""Numerically, the transformed program computes what eager PyTorch does; Thunder's own differences are told apart."""

from __future__ import annotations

from typing import Any


def test_eager(fuzz: Any, shard: int) -> None:
    """Bitwise on exact inputs, else within three times eager's own error against float64."""
    fuzz("eager", shard)
