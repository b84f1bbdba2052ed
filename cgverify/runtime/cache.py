"""The entries of all regions of one transform: seen, captured or failed; the least recently used goes first."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

REMEMBERED = 1024
"""How many entries that are no graph (seen once, or failed) a transform remembers."""


class EntryKey:
    """Owner and description of an entry, hashed once: a lookup by the very same key compares nothing.

    Args:
        owner: the region the entry belongs to.
        description: what `guards.describe` says of the arguments.
    """

    __slots__ = ("_hash", "description", "owner")

    def __init__(self, owner: Hashable, description: Hashable) -> None:
        self.owner = owner
        self.description = description
        self._hash = hash((owner, description))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EntryKey):
            return NotImplemented
        return self.owner == other.owner and self.description == other.description


class Closable(Protocol):
    """Something that holds device memory until it is closed.

    Attributes:
        used: when it was used last, by the cache's clock.
    """

    used: int

    def close(self) -> None:
        """Gives the memory back."""


Graph = TypeVar("Graph", bound=Closable)
Mark = TypeVar("Mark")


class EntryCache(Generic[Graph, Mark]):
    """At most `max_graphs` graphs, and at most `REMEMBERED` marks for entries that have none.

    Both are keyed by region and description, and evicted least recently used first. An evicted graph is closed. A
    garbage collection may drop an owner in the midst of any method, so loops run over copies of the keys.

    Attributes:
        clock: ticks once per use of a graph. Who uses a graph without looking it up sets its `used` by it.
    """

    def __init__(self, max_graphs: int) -> None:
        self.clock = itertools.count()
        self._max_graphs = max_graphs
        self._graphs: dict[EntryKey, Graph] = {}
        self._marks: OrderedDict[EntryKey, Mark] = OrderedDict()

    def graph(self, key: EntryKey) -> Graph | None:
        """The graph of an entry, now the most recently used one."""
        found = self._graphs.get(key)
        if found is not None:
            found.used = next(self.clock)
        return found

    def mark(self, key: EntryKey) -> Mark | None:
        """What is remembered of an entry without a graph."""
        found = self._marks.get(key)
        if found is not None:
            self._marks.move_to_end(key)
        return found

    def put_mark(self, key: EntryKey, mark: Mark) -> None:
        """Remembers `mark` for an entry, and drops its graph if it has one."""
        self._close(key)
        self._marks[key] = mark
        self._marks.move_to_end(key)
        if len(self._marks) > REMEMBERED:
            self._marks.popitem(last=False)

    def put_graph(self, key: EntryKey, graph: Graph) -> None:
        """Adds a graph; evicts the least recently used ones above the limit."""
        self._marks.pop(key, None)
        self._graphs[key] = graph
        graph.used = next(self.clock)
        while len(self._graphs) > self._max_graphs:
            self._close(min(list(self._graphs), key=self._last_use))

    def drop(self, owner: Hashable) -> None:
        """Forgets all entries of `owner`."""
        for key in list(self._graphs):
            if key.owner == owner:
                self._close(key)
        for key in list(self._marks):
            if key.owner == owner:
                self._marks.pop(key, None)

    def clear(self) -> None:
        """Closes every graph and forgets every mark."""
        for key in list(self._graphs):
            self._close(key)
        self._marks.clear()

    def graphs(self) -> Iterator[Graph]:
        """The graphs alive, in the order of their captures."""
        return iter(tuple(self._graphs.values()))

    def _close(self, key: EntryKey) -> None:
        graph = self._graphs.pop(key, None)
        if graph is not None:
            graph.close()

    def _last_use(self, key: EntryKey) -> int:
        graph = self._graphs.get(key)
        return -1 if graph is None else graph.used
