"""The cache bounds graphs and marks, evicts the least recently used, and closes what it evicts."""

from __future__ import annotations

from cgverify.runtime.cache import REMEMBERED, EntryCache, EntryKey

KEY = EntryKey(0, "k")


class Graph:
    """Counts how often it was closed."""

    def __init__(self) -> None:
        self.closed = 0
        self.used = 0

    def close(self) -> None:
        self.closed += 1


def test_the_least_recently_used_graph_is_closed_first() -> None:
    """With room for two, a lookup saves a graph and the other one goes."""
    cache: EntryCache[Graph, str] = EntryCache(2)
    first, second, third = Graph(), Graph(), Graph()
    cache.put_graph(EntryKey(1, "a"), first)
    cache.put_graph(EntryKey(1, "b"), second)
    assert cache.graph(EntryKey(1, "a")) is first
    cache.put_graph(EntryKey(2, "a"), third)
    assert [g.closed for g in (first, second, third)] == [0, 1, 0]
    assert cache.graph(EntryKey(1, "b")) is None
    assert list(cache.graphs()) == [first, third]


def test_a_mark_replaces_a_graph_and_a_graph_a_mark() -> None:
    """An entry is either a graph or a mark, never both."""
    cache: EntryCache[Graph, str] = EntryCache(2)
    graph = Graph()
    cache.put_mark(KEY, "seen")
    cache.put_graph(KEY, graph)
    assert (cache.mark(KEY), cache.graph(KEY)) == (None, graph)
    cache.put_mark(KEY, "failed")
    assert (cache.mark(KEY), cache.graph(KEY), graph.closed) == ("failed", None, 1)


def test_dropping_an_owner_leaves_the_others() -> None:
    """Only the owner's keys go, and their graphs are closed."""
    cache: EntryCache[Graph, str] = EntryCache(4)
    mine, theirs = Graph(), Graph()
    cache.put_graph(EntryKey("me", 1), mine)
    cache.put_graph(EntryKey("you", 1), theirs)
    cache.put_mark(EntryKey("me", 2), "seen")
    cache.drop("me")
    assert (mine.closed, theirs.closed, cache.mark(EntryKey("me", 2))) == (1, 0, None)
    cache.clear()
    assert theirs.closed == 1


def test_marks_are_bounded() -> None:
    """Argument descriptions that never come back are forgotten, oldest first."""
    cache: EntryCache[Graph, str] = EntryCache(1)
    for key in range(REMEMBERED + 5):
        cache.put_mark(EntryKey(0, key), "seen")
    assert cache.mark(EntryKey(0, 4)) is None
    assert cache.mark(EntryKey(0, 5)) == "seen"


def test_an_owner_dropped_in_the_midst_of_an_eviction_is_gone() -> None:
    """A region that dies while the graph to evict is looked for takes its own graphs along, and raises nothing."""
    cache: EntryCache[Graph, str] = EntryCache(2)

    class Dropping(Graph):
        """Where a garbage collection drops another region as soon as somebody asks for the last use."""

        @property
        def used(self) -> int:
            cache.drop("dead")
            return 0

        @used.setter
        def used(self, value: int) -> None:
            pass

    kept, dead, new = Dropping(), Graph(), Graph()
    cache.put_graph(EntryKey("kept", 1), kept)
    cache.put_graph(EntryKey("dead", 1), dead)
    cache.put_graph(EntryKey("new", 1), new)
    assert dead.closed == 1
    assert list(cache.graphs())[-1] is new
