"""What the caching allocator cuts its arena into: segments, blocks of segments, and the memory pools that own them."""

from __future__ import annotations

from dataclasses import dataclass, field

PoolId = tuple[int, int]
GENERAL: PoolId = (0, 0)


@dataclass(eq=False, slots=True)
class Segment:
    """One `cudaMalloc`: offset and size in bytes, owned by one stream of one memory pool."""

    offset: int
    size: int
    stream: int
    small: bool


@dataclass(eq=False, slots=True)
class Block:
    """A piece of a segment. `serial` numbers its allocations: another serial means another owner."""

    offset: int
    size: int
    segment: Segment
    pool: Pool
    free: bool = True
    requested: int = 0
    serial: int = 0
    before: Block | None = None
    after: Block | None = None
    capture: object | None = None  # the capture that allocated it, until it is freed


@dataclass(eq=False, slots=True)
class Pool:
    """The general memory pool or a graph-private one; `use_count` counts the graphs that hold it."""

    id: PoolId
    use_count: int = 0
    was_used: bool = False  # until its memory is given back
    is_recording: bool = False  # from a capture's begin to its end; a capture that fails leaves it set
    free_lists: dict[tuple[bool, int], list[tuple[int, int]]] = field(default_factory=dict)  # sorted (size, offset)
    segments: list[Segment] = field(default_factory=list)
