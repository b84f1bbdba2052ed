"""The caching allocator's rules, on offsets alone."""

from __future__ import annotations

import random

from cgverify.emulation.allocator import (
    LARGE_SEGMENT,
    MIB,
    SMALL_SEGMENT,
    ArenaFull,
    CachingAllocator,
)
from cgverify.emulation.blocks import Block

import pytest

STREAM = 0


@pytest.fixture
def allocator() -> CachingAllocator:
    return CachingAllocator(256 * MIB)


def take(allocator: CachingAllocator, nbytes: int, stream: int = STREAM) -> Block:
    return allocator.allocate(nbytes, allocator.general, stream)


@pytest.mark.parametrize(("nbytes", "size"), [(1, 512), (512, 512), (513, 1024), (MIB, MIB)])
def test_requests_are_rounded_to_512_bytes(allocator: CachingAllocator, nbytes: int, size: int) -> None:
    """A block is the request rounded up to a multiple of 512 bytes."""
    assert take(allocator, nbytes).size == size


@pytest.mark.parametrize(
    ("nbytes", "segment"),
    [(1, SMALL_SEGMENT), (MIB, SMALL_SEGMENT), (MIB + 1, LARGE_SEGMENT), (10 * MIB, 10 * MIB), (11 * MIB, 12 * MIB)],
)
def test_segment_sizes(allocator: CachingAllocator, nbytes: int, segment: int) -> None:
    """Small, large and huge requests come from segments of 2 MiB, 20 MiB and the size rounded to 2 MiB."""
    assert take(allocator, nbytes).segment.size == segment


def test_the_smallest_block_that_fits_is_taken(allocator: CachingAllocator) -> None:
    """Among free blocks the best fit wins, not the first."""
    blocks = [take(allocator, size) for size in (4096, 512, 1024, 512, 2048, 512)]
    for index in (0, 2, 4):
        allocator.free(blocks[index])
    assert take(allocator, 1500).offset == blocks[4].offset
    assert take(allocator, 700).offset == blocks[2].offset


def test_neighbours_merge(allocator: CachingAllocator) -> None:
    """Freed neighbours become one block that serves a request neither could."""
    first, second, _third = take(allocator, 512), take(allocator, 512), take(allocator, 512)
    allocator.free(second)
    allocator.free(first)
    assert take(allocator, 1024).offset == first.offset


def test_streams_do_not_share_blocks(allocator: CachingAllocator) -> None:
    """A block freed on one stream is not given to another."""
    block = take(allocator, 512, stream=1)
    offset = block.offset
    allocator.free(block)
    assert take(allocator, 512, stream=2).offset != offset
    assert take(allocator, 512, stream=1).offset == offset


def test_private_pools_do_not_share_blocks(allocator: CachingAllocator) -> None:
    """A block freed in a graph's pool is not given to eager code."""
    pool = allocator.pool((1, 0))
    block = allocator.allocate(512, pool, STREAM)
    allocator.free(block)
    assert take(allocator, 512).offset != block.offset


def test_trim_keeps_pools_that_a_graph_holds(allocator: CachingAllocator) -> None:
    """Emptying the cache gives back empty segments, but for pools in use."""
    pool = allocator.pool((1, 0))
    pool.use_count = 1
    allocator.free(allocator.allocate(512, pool, STREAM))
    allocator.free(take(allocator, 512))
    allocator.trim()
    assert [len(each.segments) for each in (allocator.general, pool)] == [0, 1]
    pool.use_count = 0
    allocator.trim()
    assert allocator.counters["reserved_bytes", "all"].current == 0


def test_segments_are_reused_lowest_first(allocator: CachingAllocator) -> None:
    """A segment given back is handed out again before new address space is used."""
    blocks = [take(allocator, 2 * MIB), take(allocator, 19 * MIB)]
    offsets = sorted(block.segment.offset for block in blocks)
    for block in reversed(blocks):
        allocator.free(block)
    allocator.trim()
    assert take(allocator, 2 * MIB).segment.offset == offsets[0]


def test_a_full_arena_empties_its_cache_before_it_gives_up(allocator: CachingAllocator) -> None:
    """The cache is emptied when no segment is left, and only then does a request fail."""
    allocator.free(take(allocator, 200 * MIB))
    big = take(allocator, 200 * MIB)
    assert big.size == 200 * MIB
    with pytest.raises(ArenaFull, match="no 62914560 bytes left of 268435456"):
        take(allocator, 60 * MIB)


def test_a_free_in_the_middle_of_an_allocation_waits(allocator: CachingAllocator) -> None:
    """A destructor that runs inside an allocation frees its block when the allocation is done."""
    victim = take(allocator, 512)
    seen = []

    def free_victim(_block: Block) -> None:
        allocator.on_allocate = None
        allocator.free(victim)
        seen.append(victim.free)

    allocator.on_allocate = free_victim
    take(allocator, 512)
    assert seen == [False]
    assert victim.free
    assert victim.offset not in allocator.live


def test_statistics_follow_blocks(allocator: CachingAllocator) -> None:
    """Counts, bytes and peaks are those of the live blocks; resetting a peak makes it the current value."""
    small, large = take(allocator, 100), take(allocator, 2 * MIB)
    allocator.free(large)
    found = allocator.counters.statistics()
    assert found["allocated_bytes"]["all"] == {
        "current": 512,
        "peak": 512 + 2 * MIB,
        "allocated": 512 + 2 * MIB,
        "freed": 2 * MIB,
    }
    assert found["requested_bytes"]["small_pool"]["current"] == 100
    assert found["segment"]["all"]["current"] == 2
    allocator.counters.reset_peaks()
    allocator.free(small)
    assert allocator.counters.statistics()["allocated_bytes"]["all"]["peak"] == 512


@pytest.mark.parametrize("seed", range(5))
def test_blocks_tile_their_segments(seed: int) -> None:
    """After any history the blocks of a segment follow each other without gap, and no two neighbours are free."""
    choices, allocator = random.Random(seed), CachingAllocator(512 * MIB)
    live: list[Block] = []
    for _step in range(400):
        if live and choices.random() < 0.5:
            allocator.free(live.pop(choices.randrange(len(live))))
        else:
            live.append(take(allocator, choices.choice([1, 600, 5000, 10**5, 10**6, 3 * 10**6]), choices.randrange(2)))
    for _pool, segment, blocks in allocator.segments():
        end = segment.offset
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            assert block.offset == end
            assert not (block.free and following is not None and following.free)
            end += block.size
        assert end == segment.offset + segment.size
    assert {block.offset for block in live} == set(allocator.live)
