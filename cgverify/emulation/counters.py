"""The caching allocator's statistics, by name and kind of pool, as torch reports them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cgverify.emulation.blocks import Block


@dataclass(slots=True)
class Counter:
    """One statistic as torch reports it: current and peak value, and all that was ever added and taken off."""

    current: int = 0
    peak: int = 0
    allocated: int = 0
    freed: int = 0

    def add(self, amount: int) -> None:
        """Raise the value."""
        self.allocated += amount
        self.current += amount
        if self.current > self.peak:
            self.peak = self.current

    def take(self, amount: int) -> None:
        """Lower the value."""
        self.freed += amount
        self.current -= amount


POOL_KINDS = ("all", "large_pool", "small_pool")
STATISTICS = ("allocation", "allocated_bytes", "requested_bytes", "segment", "reserved_bytes")


class Counters(dict[tuple[str, str], Counter]):
    """Every counter, by (name, kind of pool)."""

    def __init__(self) -> None:
        super().__init__({(name, kind): Counter() for name in STATISTICS for kind in POOL_KINDS})

    def statistics(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return torch's nested memory statistics: name -> pool kind -> current, peak, allocated, freed."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for (name, kind), counter in self.items():
            values = {key: getattr(counter, key) for key in ("current", "peak", "allocated", "freed")}
            found.setdefault(name, {})[kind] = values
        # every block is reusable the moment it is freed, so what torch calls active is what is allocated
        found["active"], found["active_bytes"] = found["allocation"], found["allocated_bytes"]
        return found

    def reset_peaks(self) -> None:
        """Make each peak its current value."""
        for counter in self.values():
            counter.peak = counter.current

    def reset_accumulated(self) -> None:
        """Forget all that was allocated and freed so far."""
        for counter in self.values():
            counter.allocated = counter.freed = 0

    def count_block(self, block: Block, change: Callable[[Counter, int], None]) -> None:
        """Add a block that is handed out (`Counter.add`), or take off one that comes back (`Counter.take`)."""
        for kind in _kinds(block.segment.small):
            change(self["allocation", kind], 1)
            change(self["allocated_bytes", kind], block.size)
            change(self["requested_bytes", kind], block.requested)

    def count_segment(self, size: int, small: bool, change: Callable[[Counter, int], None]) -> None:
        """Add a segment of that many bytes, or take one off."""
        for kind in _kinds(small):
            change(self["segment", kind], 1)
            change(self["reserved_bytes", kind], size)


def _kinds(small: bool) -> tuple[str, str]:
    return "all", "small_pool" if small else "large_pool"
