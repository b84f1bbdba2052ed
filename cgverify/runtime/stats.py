"""Counts of what the runtime did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RuntimeStats:
    """A snapshot over all regions of one transform.

    Attributes:
        captures: graphs captured.
        replays: graph launches.
        copies: tensors copied into static buffers, back to written inputs, or out to the caller.
        ungraphed: calls that ran un-graphed, by reason.
        graphs: graphs alive now.
        bytes_held: device bytes of static buffers and graph memory alive now.
        leases: tensors handed out in graph memory instead of being copied.
    """

    captures: int
    replays: int
    copies: int
    ungraphed: dict[str, int]
    graphs: int
    bytes_held: int
    leases: int = 0


@dataclass(slots=True)
class Tally:
    """The running counts behind `RuntimeStats`; changed only while the runtime's lock is held."""

    captures: int = 0
    replays: int = 0
    copies: int = 0
    leases: int = 0
    ungraphed: Counter[str] = field(default_factory=Counter)
