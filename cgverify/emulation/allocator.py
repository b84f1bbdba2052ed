"""The CUDA caching allocator's rules for cutting up one arena: pure arithmetic on offsets, no memory behind it.

Requests are rounded to 512 bytes and served from segments of 2 MiB (requests up to 1 MiB), 20 MiB (up to 10 MiB) or
the size rounded to 2 MiB. Each memory pool keeps its free blocks apart by (small?, stream) and serves the smallest
block that fits, lowest address first; a remainder is split off and merged again when its neighbours are free. Segments
go back when nothing lives in them and the cache is emptied, and are handed out again lowest address first. This is
`c10/cuda/CUDACachingAllocator.cpp` with its default settings; 2,720 allocations of an H200 in pools shared by three
captures fell on the very same (segment, offset).
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator

from cgverify.emulation.blocks import GENERAL, Block, Pool, PoolId, Segment
from cgverify.emulation.counters import Counter, Counters

MIB = 1 << 20
ROUND = 512  # every block is a multiple of this
SMALL_LIMIT = MIB  # larger requests come from large segments
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
LARGE_LIMIT = 10 * MIB  # larger requests get a segment of their own size
ROUND_SEGMENT = 2 * MIB


class ArenaFull(MemoryError):
    """No segment of the asked size is left."""


class CachingAllocator:
    """Hands out blocks of an arena of `capacity` bytes, of which the first `reserved` are never used.

    `on_allocate` and `on_free`, when set, see every block at the moment it changes hands. A block may be freed from a
    destructor at any moment, also in the middle of an allocation of the same thread: it then waits until that is done.
    """

    def __init__(self, capacity: int, reserved: int = SMALL_SEGMENT) -> None:
        self.capacity = capacity
        self.general = Pool(GENERAL)
        self.pools: dict[PoolId, Pool] = {GENERAL: self.general}
        self.live: dict[int, Block] = {}  # by offset
        self.on_allocate: Callable[[Block], None] | None = None
        self.on_free: Callable[[Block], None] | None = None
        self.counters = Counters()
        self._blocks: dict[int, Block] = {}  # live and free, by offset
        self._end = reserved
        self._returned: list[tuple[int, int]] = []  # segments given back, sorted (offset, size)
        self._serials = itertools.count(1)
        self._lock = threading.RLock()
        self._working = False
        self._late: deque[Block] = deque()

    def pool(self, pool_id: PoolId) -> Pool:
        """Return the memory pool of that handle, made on first use."""
        return self.pools.setdefault(pool_id, Pool(pool_id))

    def allocate(self, nbytes: int, pool: Pool, stream: int) -> Block:
        """Return a block of at least `nbytes` (> 0) bytes; raises `ArenaFull` when even an emptied cache has none."""
        with self._lock:
            outer, self._working = self._working, True
            try:
                block = self._allocate(max(ROUND, -(-nbytes // ROUND) * ROUND), pool, stream)
                block.free, block.requested, block.serial = False, nbytes, next(self._serials)
                self.live[block.offset] = block
                self.counters.count_block(block, Counter.add)
                if self.on_allocate is not None:
                    self.on_allocate(block)
            finally:
                self._working = outer
            self._free_late()
        return block

    def free(self, block: Block) -> None:
        """Take a live block back."""
        self._late.append(block)
        with self._lock:
            self._free_late()

    def trim(self) -> None:
        """Give back the segments in which nothing lives, but for private pools that a graph still holds."""
        with self._lock:
            for pool in list(self.pools.values()):
                if pool is self.general or pool.use_count == 0:
                    self._trim(pool)
                    if pool is not self.general and not pool.segments:
                        del self.pools[pool.id]

    def segments(self) -> Iterator[tuple[Pool, Segment, list[Block]]]:
        """Yield each segment with its memory pool and its blocks in address order."""
        for pool in self.pools.values():
            for segment in pool.segments:
                blocks, block = [], self._blocks.get(segment.offset)
                while block is not None:
                    blocks.append(block)
                    block = block.after
                yield pool, segment, blocks

    def _allocate(self, size: int, pool: Pool, stream: int) -> Block:
        small = size <= SMALL_LIMIT
        free = pool.free_lists.setdefault((small, stream), [])
        position = bisect_left(free, (size, -1))
        if position < len(free):
            block = self._blocks[free.pop(position)[1]]
        else:
            block = self._new_segment(size, small, pool, stream)
        rest = block.size - size
        if rest >= ROUND if small else rest > SMALL_LIMIT:
            tail = Block(block.offset + size, rest, block.segment, pool, before=block, after=block.after)
            if block.after is not None:
                block.after.before = tail
            block.after, block.size = tail, size
            self._blocks[tail.offset] = tail
            insort(free, (rest, tail.offset))
        return block

    def _new_segment(self, size: int, small: bool, pool: Pool, stream: int) -> Block:
        if small:
            size = SMALL_SEGMENT
        else:
            size = LARGE_SEGMENT if size < LARGE_LIMIT else -(-size // ROUND_SEGMENT) * ROUND_SEGMENT
        try:
            offset = self._reserve(size)
        except ArenaFull:
            self.trim()
            offset = self._reserve(size)
        segment = Segment(offset, size, stream, small)
        pool.segments.append(segment)
        self.counters.count_segment(size, small, Counter.add)
        block = self._blocks[offset] = Block(offset, size, segment, pool)
        return block

    def _reserve(self, size: int) -> int:
        for position, (offset, returned) in enumerate(self._returned):
            if returned == size:
                del self._returned[position]
                return offset
        if self._end + size > self.capacity:
            raise ArenaFull(f"no {size} bytes left of {self.capacity}")
        offset, self._end = self._end, self._end + size
        return offset

    def _free_late(self) -> None:
        while self._late and not self._working:
            self._working = True
            try:
                self._free(self._late.popleft())
            finally:
                self._working = False

    def _free(self, block: Block) -> None:
        if self.on_free is not None:
            self.on_free(block)
        del self.live[block.offset]
        self.counters.count_block(block, Counter.take)
        block.free, block.capture = True, None
        free = block.pool.free_lists[block.segment.small, block.segment.stream]
        if block.before is not None and block.before.free:
            self._unlist(free, block.before)
            block = self._merge(block.before, block)
        if block.after is not None and block.after.free:
            self._unlist(free, block.after)
            block = self._merge(block, block.after)
        insort(free, (block.size, block.offset))

    @staticmethod
    def _unlist(free: list[tuple[int, int]], block: Block) -> None:
        del free[bisect_left(free, (block.size, block.offset))]

    def _merge(self, low: Block, high: Block) -> Block:
        low.size, low.after = low.size + high.size, high.after
        if high.after is not None:
            high.after.before = low
        # whoever remembers the swallowed block must see that it is gone
        del self._blocks[high.offset]
        return low

    def _trim(self, pool: Pool) -> None:
        for (small, _), free in pool.free_lists.items():
            for size, offset in list(free):
                block = self._blocks[offset]
                if size == block.segment.size:
                    self._unlist(free, block)
                    del self._blocks[offset]
                    pool.segments.remove(block.segment)
                    insort(self._returned, (offset, size))
                    self.counters.count_segment(size, small, Counter.take)
