"""Measures calls: throughput, host time, the first call, and the peak of reserved memory.

Functions that are compared with each other are timed in turn, sample by sample, so that a machine that speeds up or
slows down meanwhile does so for all of them.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

Key = TypeVar("Key")
Result = TypeVar("Result")
Call = Callable[[], object]

MICROSECONDS = 1e6
HOST_CALLS = 4
"""Calls enqueued at once for a sample of host time: few enough that no queue of the driver fills and blocks."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured.

    Attributes:
        samples: how many, of which the median counts.
        calls: calls queued in a sample of throughput, before one synchronisation.
        sample_seconds: a sample of slow calls queues fewer, to last about this long, but at least `fewest`.
        fewest: see there.
        host_samples: samples of host time, of `HOST_CALLS` calls each.
    """

    samples: int
    calls: int
    sample_seconds: float
    fewest: int
    host_samples: int


FULL = Effort(samples=7, calls=200, sample_seconds=0.08, fewest=10, host_samples=25)
QUICK = Effort(samples=3, calls=100, sample_seconds=0.15, fewest=5, host_samples=10)
REDUCED = Effort(samples=1, calls=2, sample_seconds=0.01, fewest=1, host_samples=1)


@dataclass(frozen=True, slots=True)
class Timing:
    """What a call costs.

    Attributes:
        throughput: microseconds per call of many queued ones, the wait for the device included.
        host: microseconds until a call returns, that is to enqueue it.
        calls: how many were queued in a sample of `throughput`.
    """

    throughput: float
    host: float
    calls: int


def time_in_turn(functions: Mapping[Key, Call], effort: Effort) -> dict[Key, Timing]:
    """Times each function against the others.

    Args:
        functions: each already warm.
        effort: how much to measure.
    """
    calls = {name: _choose_calls(function, effort) for name, function in functions.items()}
    queued: dict[Key, list[float]] = {name: [] for name in functions}
    host: dict[Key, list[float]] = {name: [] for name in functions}
    gc.collect()
    gc.freeze()  # or a collection in the middle of a sample would look through all that compilers left
    try:
        for _ in range(effort.samples):
            for name, function in functions.items():
                queued[name].append(_sample(function, calls[name], wait=True))
        for _ in range(effort.host_samples):
            for name, function in functions.items():
                host[name].append(_sample(function, HOST_CALLS, wait=False))
    finally:
        gc.unfreeze()
    return {
        name: Timing(statistics.median(queued[name]), statistics.median(host[name]), calls[name]) for name in functions
    }


def time_first(function: Callable[[], Result]) -> tuple[Result, float]:
    """The result of a call and how many milliseconds passed until the device had finished it."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return result, (time.perf_counter() - begin) * 1e3


def free_memory() -> None:
    """Gives back all device memory that nothing holds."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


class ReservedMemory:
    """The peak of memory reserved from the device, above what was reserved when this was made."""

    def __init__(self) -> None:
        self.restart()
        self._before = torch.cuda.memory_reserved()

    def restart(self) -> None:
        """Gives back what nothing holds, and begins a new peak."""
        free_memory()
        torch.cuda.reset_peak_memory_stats()

    def peak(self) -> int:
        """Bytes, since the last restart."""
        return int(torch.cuda.max_memory_reserved() - self._before)


def _choose_calls(function: Call, effort: Effort) -> int:
    function()
    seconds = _sample(function, effort.fewest, wait=True) / MICROSECONDS
    return max(effort.fewest, min(effort.calls, int(effort.sample_seconds / max(seconds, 1e-9))))


def _sample(function: Call, calls: int, *, wait: bool) -> float:
    """Microseconds per call."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    if wait:
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls * MICROSECONDS
