"""The allocator's statistics and snapshot in the shapes that torch.cuda's own Python code expects."""

from __future__ import annotations

from typing import Any

from cgverify.emulation.allocator import CachingAllocator
from cgverify.emulation.arena import Arena
from cgverify.emulation.blocks import GENERAL
from cgverify.emulation.counters import POOL_KINDS

_ZERO = {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
_EVENTS = (
    "num_alloc_retries",
    "num_ooms",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
    "max_split_size",
)


def nested(allocator: CachingAllocator) -> dict[str, Any]:
    """Return what torch._C._cuda_memoryStats returns; split blocks are counted now, so their peaks are not kept."""
    found: dict[str, Any] = allocator.counters.statistics()
    count, size = dict.fromkeys(POOL_KINDS, 0), dict.fromkeys(POOL_KINDS, 0)
    for _, segment, blocks in allocator.segments():
        for block in blocks:
            if block.free and block.size < segment.size:
                for kind in ("all", "small_pool" if segment.small else "large_pool"):
                    count[kind] += 1
                    size[kind] += block.size
    found["inactive_split"] = {kind: {**_ZERO, "current": value} for kind, value in count.items()}
    found["inactive_split_bytes"] = {kind: {**_ZERO, "current": value} for kind, value in size.items()}
    found["oversize_allocations"] = found["oversize_segments"] = dict(_ZERO)
    return {**found, **dict.fromkeys(_EVENTS, 0)}


def snapshot(arena: Arena, pool: tuple[int, ...] | None) -> dict[str, Any]:
    """Return what torch._C._cuda_memorySnapshot returns, for one memory pool or, for None or (0, 0), for all."""
    wanted = None if pool is None or tuple(pool[:2]) == GENERAL else tuple(pool[:2])
    segments: list[dict[str, Any]] = []
    for owner, segment, blocks in arena.allocator.segments():
        if wanted is not None and owner.id != wanted:
            continue
        used = sum(block.size for block in blocks if not block.free)
        address = arena.base + segment.offset
        segments.append(
            {
                "device": 0,
                "address": address,
                "total_size": segment.size,
                "allocated_size": used,
                "active_size": used,
                "requested_size": sum(block.requested for block in blocks if not block.free),
                "stream": segment.stream,
                "segment_type": "small" if segment.small else "large",
                "segment_pool_id": owner.id,
                "is_expandable": False,
                "frames": [],
                "blocks": [
                    {
                        "address": arena.base + block.offset,
                        "size": block.size,
                        "requested_size": block.requested if not block.free else 0,
                        "state": "inactive" if block.free else "active_allocated",
                        "frames": [],
                    }
                    for block in blocks
                ],
            }
        )
    segments.sort(key=lambda entry: entry["address"])
    return {"segments": segments, "device_traces": [], "allocator_settings": {}}
