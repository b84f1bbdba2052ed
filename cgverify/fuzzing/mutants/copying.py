"""Faults of copying in, replaying and copying out (groups A, C and D)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any
from unittest import mock

from cgverify.fuzzing.mutants.base import Mutant
from cgverify.runtime import graph as graph_module
from cgverify.runtime import pool as pool_module
from cgverify.runtime import region as region_module
from cgverify.runtime.graph import CapturedGraph
from cgverify.runtime.guards import Refusal
from cgverify.runtime.layout import as_bits, buffer_in
from cgverify.runtime.pool import Pool
from cgverify.runtime.region import GraphedRegion

import torch

Tensors = Sequence[torch.Tensor]

# The right functions, for faults that are nearly right.
_allocate = CapturedGraph._allocate
_copy_out = CapturedGraph._copy_out
_sources = CapturedGraph._sources
_init = CapturedGraph.__init__
_replay = CapturedGraph.replay
_ungraphed = GraphedRegion._ungraphed


def _graph_memory(graph: CapturedGraph) -> list[torch.Tensor]:
    return [*graph._fresh, *_allocate(graph)[len(graph._fresh) :]]


class SharedResult(Mutant):
    """Callers get the graph's own memory: the next call overwrites the results they hold."""

    faults = ("A02", "A07", "D03")
    in_call = ((CapturedGraph, "_allocate", _graph_memory), (graph_module, "FEW", -1))


def _allocate_once(graph: Any) -> list[torch.Tensor]:
    if not hasattr(graph, "allocated"):
        graph.allocated = _allocate(graph)
    return list(graph.allocated)


class ReusedResult(Mutant):
    """Results are copied out, but each time into the tensors of the first call."""

    faults = ("C11", "A02")
    in_call = ((CapturedGraph, "_allocate", _allocate_once), (graph_module, "FEW", -1))


def _without_shortcut(graph: CapturedGraph, *args: Any, **named: Any) -> None:
    """A graph that asks `_sources`, where one that copies every argument as it is has no need to."""
    _init(graph, *args, **named)
    graph._takes_all = False


def _sources_but_the_first(graph: CapturedGraph, args: Tensors) -> list[torch.Tensor]:
    return [graph._sinks[0], *_sources(graph, args)[1:]]


class StaleInput(Mutant):
    """The first copied input is never copied in: replays read whatever its buffer holds."""

    faults = ("A06", "B06")
    in_call = ((CapturedGraph, "__init__", _without_shortcut), (CapturedGraph, "_sources", _sources_but_the_first))


def _sources_at_first(graph: Any, args: Tensors) -> list[torch.Tensor]:
    graph.calls = getattr(graph, "calls", 0) + 1
    return list(_sources(graph, args) if graph.calls <= 2 else graph._sinks)


class StaleAfterTwo(Mutant):
    """Inputs are copied in for the first two replays only."""

    faults = ("A06",)
    in_call = ((CapturedGraph, "__init__", _without_shortcut), (CapturedGraph, "_sources", _sources_at_first))


def _first_rows(graph: CapturedGraph, args: Tensors) -> list[torch.Tensor]:
    found = list(_sources(graph, args))
    for k, (source, sink) in enumerate(zip(found, graph._sinks, strict=True)):
        if source.ndim and source.size(0) > 1 and source.shape == sink.shape:
            found[k] = torch.cat([source[:1], sink[1:]])
    return found


class PartialCopy(Mutant):
    """Of every input only the first row is copied in: the rest is what the last call left there."""

    faults = ("A19", "A06")
    in_call = ((CapturedGraph, "__init__", _without_shortcut), (CapturedGraph, "_sources", _first_rows))


def _replay_before_copying(graph: Any, args: Tensors) -> list[torch.Tensor]:
    captured, graph._graph = graph._graph, mock.Mock(replay=lambda: None)
    try:
        captured.replay()
        return _replay(graph, args)
    finally:
        graph._graph = captured


class CopiedTooLate(Mutant):
    """Inputs are copied in after the replay: every replay works on the inputs of the call before."""

    faults = ("A06", "E05")
    in_call = ((CapturedGraph, "replay", _replay_before_copying),)


class _NothingWrittenBack(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._written_back = []


class LostWrite(Mutant):
    """Replays write the static buffer and never the caller's tensor."""

    faults = ("A01",)
    in_call = ((region_module, "CapturedGraph", _NothingWrittenBack),)


class _FirstWrittenBack(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._written_back = self._written_back[:1]


class LostSecondWrite(Mutant):
    """Of several written inputs only the first is copied back."""

    faults = ("A01",)
    in_call = ((region_module, "CapturedGraph", _FirstWrittenBack),)


class _WrittenBackEarly(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._early, self._written_back = self._written_back, []

    def replay(self, args: Tensors) -> list[torch.Tensor]:
        for k in self._early:
            as_bits(args[k]).copy_(as_bits(self._buffers[k]))
        return super().replay(args)


class WrittenBackEarly(Mutant):
    """What a replay writes is copied back to the caller at the next call, before the replay."""

    faults = ("A01", "A06")
    in_call = ((region_module, "CapturedGraph", _WrittenBackEarly),)


def _three_warm_ups(region: GraphedRegion, args: Tensors, refusal: Refusal) -> list[torch.Tensor]:
    if refusal is Refusal.FIRST_CALL:
        for _ in range(2):
            region._run(*args)
    return _ungraphed(region, args, refusal)


class RepeatedWarmUp(Mutant):
    """The first call warms up by running the body three times: writes and draws happen three times."""

    faults = ("A05", "R04")
    in_call = ((GraphedRegion, "_ungraphed", _three_warm_ups),)


class _Inert(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._graph = mock.Mock(wraps=self._graph, replay=lambda: None)


class SkippedReplay(Mutant):
    """A call with a captured graph copies in and out and launches nothing."""

    faults = ("A06", "B13")
    in_call = ((region_module, "CapturedGraph", _Inert),)


class _FrozenAtFirst(CapturedGraph):
    first: list[torch.Tensor] | None = None

    def replay(self, args: Tensors) -> list[torch.Tensor]:
        self.first = super().replay(args) if self.first is None else self.first
        return list(self.first)


class FrozenResults(Mutant):
    """After the capture, every call gets the results of the first replay again."""

    faults = ("A06", "B02")
    in_call = ((region_module, "CapturedGraph", _FrozenAtFirst),)


class _OneCallLate(CapturedGraph):
    last: list[torch.Tensor] | None = None

    def replay(self, args: Tensors) -> list[torch.Tensor]:
        found = super().replay(args)
        handed, self.last = self.last or found, found
        return list(handed)


class OneCallLate(Mutant):
    """From the second replay on, a call gets the results of the call before."""

    faults = ("A06", "E05")
    in_call = ((region_module, "CapturedGraph", _OneCallLate),)


def _replay_swapped(graph: CapturedGraph, args: Tensors) -> list[torch.Tensor]:
    results = _replay(graph, args)
    for k, (one, other) in enumerate(itertools.pairwise(results)):
        if one.shape == other.shape and one.dtype is other.dtype:
            return [*results[:k], other, one, *results[k + 2 :]]
    return results


class SwappedResults(Mutant):
    """Replays hand out two results of one shape and dtype in the wrong order."""

    faults = ("G05", "G03")
    in_call = ((CapturedGraph, "replay", _replay_swapped),)


def _all_in_one_store(pool: Pool, tensors: Tensors) -> list[torch.Tensor]:
    room = max((pool_module._bytes_for(tensor) for tensor in tensors), default=1)
    store = torch.empty(room, dtype=torch.uint8, device=pool.device)
    pool._stores.append(store)
    return [buffer_in(store, tensor) for tensor in tensors]


class SharedBuffers(Mutant):
    """All static buffers of a graph lie in the same memory."""

    faults = ("D05", "A04")
    in_call = ((Pool, "buffers_like", _all_in_one_store),)


def _contiguous_buffers(pool: Pool, tensors: Tensors) -> list[torch.Tensor]:
    return [torch.empty(tensor.size(), dtype=tensor.dtype, device=pool.device) for tensor in tensors]


class ContiguousBuffers(Mutant):
    """Static buffers are contiguous, whatever the strides of the caller's tensors."""

    faults = ("A16",)
    in_call = ((Pool, "buffers_like", _contiguous_buffers),)


class NaiveCopyIn(Mutant):
    """Inputs are copied as they are, also where elements of the buffer overlap."""

    faults = ("A17",)
    in_call = ((graph_module, "copyable", lambda tensor: tensor),)


def _contiguous_results(graph: CapturedGraph) -> list[torch.Tensor]:
    found = _allocate(graph)
    fresh = [torch.empty(t.size(), dtype=t.dtype, device=graph.device) for t in graph._fresh]
    return fresh + found[len(fresh) :]


def _copy_by_element(graph: CapturedGraph, fresh: list[torch.Tensor]) -> None:
    count = len(graph._fresh)
    for sink, source in zip(fresh[:count], graph._fresh, strict=True):
        sink.copy_(source)
    for room, block in zip(fresh[count:], graph._blocks, strict=True):
        room[: block.source.numel()].copy_(block.source)


class ContiguousResults(Mutant):
    """Results come back contiguous, whatever strides the body gave them."""

    faults = ("A16",)
    in_call = (
        (CapturedGraph, "_allocate", _contiguous_results),
        (CapturedGraph, "_copy_out", _copy_by_element),
        (graph_module, "FEW", -1),
    )
