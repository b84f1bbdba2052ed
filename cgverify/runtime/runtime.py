"""What all regions of one transform share: the cache of graphs, the pools, and the counts."""

from __future__ import annotations

from collections.abc import Hashable

from cgverify.runtime.cache import EntryCache
from cgverify.runtime.graph import CapturedGraph
from cgverify.runtime.guards import Refusal
from cgverify.runtime.pool import LOCK, Pool
from cgverify.runtime.stats import RuntimeStats, Tally
from cgverify.runtime.storm import describe_thrash

import torch


class Runtime:
    """What all regions of one transform share: the cache of graphs and the counts.

    Args:
        max_graphs: most graphs alive at once, over all regions; at least 1.
        check_first: whether the first replay of each graph is compared with the un-graphed body, bit for bit.
        in_place_after: after how many calls in a row with every input at the same address a region reads inputs where
            they lie; at least 1, or None for never.
    """

    def __init__(self, max_graphs: int, *, check_first: bool = False, in_place_after: int | None = None) -> None:
        self.cache: EntryCache[CapturedGraph, Refusal] = EntryCache(max_graphs)
        self.tally = Tally()
        self.check_first = check_first
        self.in_place_after = in_place_after
        self._max_graphs = max_graphs
        self._pools: dict[str, Pool] = {}

    def pool(self, device: str) -> Pool:
        """The one pool of all graphs on a device."""
        if device not in self._pools:
            self._pools[device] = Pool(torch.device(device))
        return self._pools[device]

    def is_lent(self, device: str, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies on graph memory that a graph on this device keeps."""
        pool = self._pools.get(device)
        return pool is not None and pool.is_lent(tensor)

    def describe_thrash(self) -> str | None:
        """What to warn of at this capture: graphs that are dropped before they were of use."""
        return describe_thrash(self.tally.captures, self.tally.replays, self._max_graphs)

    def stats(self) -> RuntimeStats:
        """Counts since the transform was made, and what is held now."""
        with LOCK:
            graphs = list(self.cache.graphs())
            tally = self.tally
            return RuntimeStats(
                tally.captures,
                tally.replays,
                tally.copies,
                dict(tally.ungraphed),
                len(graphs),
                sum(graph.bytes_held for graph in graphs),
                tally.leases,
            )

    def reset(self) -> None:
        """Drops every graph and its memory; each entry starts again with an un-graphed call."""
        with LOCK:
            self.cache.clear()

    def drop(self, token: Hashable) -> None:
        """Forgets the entries of one region."""
        with LOCK:
            self.cache.drop(token)
