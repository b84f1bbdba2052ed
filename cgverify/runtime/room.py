"""Room in a memory pool: one segment for a capture, out of which its requests are cut and merge again when free.

Left to itself the caching allocator makes a segment for each large request that finds no room, and segments never
merge: a pool then reserves several times what its graphs need at once.
"""

from __future__ import annotations

import contextlib

import torch

LARGE = 10 << 20
"""Bytes from which on the caching allocator makes a segment for each request that finds no room, of that size; for one
below, unless it is small, it makes a segment of twice as many."""

FEW = LARGE // 2
"""Up to here the allocator's own segment, which others will share, is no waste."""

SLACK = 32 << 20
"""Most bytes of room for what no trace shows: copies inside ops, workspaces, and gaps."""


class Room:
    """What a pool has room for beside the results that its graphs keep.

    Args:
        device: where the pool is.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._made = 0
        self._kept: dict[torch.cuda.CUDAGraph, int] = {}

    def make(self, needs: int) -> None:
        """To be called in a capture, before its body: lets the pool grow if that is large and finds no room.

        Args:
            needs: bytes that the body's large values are known to take at once.
        """
        if needs < FEW or needs <= self._made - sum(self._kept.values()):
            return
        room = max(needs + min(needs // 8, SLACK), LARGE)
        with contextlib.suppress(torch.OutOfMemoryError):  # the body then gets what there is, request by request
            torch.empty(room, dtype=torch.uint8, device=self._device)
            self._made += room

    def keep(self, graph: torch.cuda.CUDAGraph, bytes_kept: int) -> None:
        """Says what a graph's results take of the pool."""
        self._kept[graph] = bytes_kept

    def drop(self, graph: torch.cuda.CUDAGraph) -> None:
        """Says that a graph is gone."""
        self._kept.pop(graph, None)

    def forget(self) -> None:
        """Says that the next graph starts in a new pool."""
        self._made = 0
        self._kept.clear()
