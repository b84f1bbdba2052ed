"""Faults of choosing the graph for a call: keys, guards, caches (groups A, D and H)."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from typing import Any

from cgverify.fuzzing.mutants.base import Mutant
from cgverify.plan import Region
from cgverify.runtime import region as region_module
from cgverify.runtime.cache import EntryCache, EntryKey
from cgverify.runtime.guards import EntryGuard, describe
from cgverify.runtime.places import Places

import torch

Tensors = Sequence[torch.Tensor]

_graph = EntryCache.graph


def _without_addresses(args: Tensors, in_place: Collection[int]) -> Hashable:
    return describe(args, ())


class _AnyAddress(EntryGuard):
    def __init__(self, region: Region, args: Tensors, in_place: Collection[int], patience: float = math.inf) -> None:
        super().__init__(region, args, ())


class UnguardedStaticInput(Mutant):
    """Parameters are read where they were at capture, whether they are still there or not."""

    faults = ("A03", "D01")
    in_call = ((region_module, "describe", _without_addresses), (region_module, "EntryGuard", _AnyAddress))


class EveryInputInPlace(Mutant):
    """Every input is read where it was at capture, whether it is still there or not."""

    faults = ("A08", "G10")
    in_call = (
        (region_module, "describe", _without_addresses),
        (region_module, "EntryGuard", _AnyAddress),
        (Places, "choices", lambda places, args: [frozenset(range(len(args)))]),
    )


class UnguardedReplay(Mutant):
    """Addresses are in the key, but the cheap check of later calls does not look at them."""

    faults = ("A03", "H01")
    in_call = ((region_module, "EntryGuard", _AnyAddress),)


class UnguardedStrides(Mutant):
    """Calls that differ in strides alone share a graph."""

    faults = ("H01", "A16", "C05")
    in_call = ((region_module, "describe", lambda args, in_place: tuple((arg.dtype, arg.size()) for arg in args)),)


class _AnyLayout(EntryGuard):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._layouts = lambda *args: True


class UnguardedLayouts(Mutant):
    """The cheap check of later calls does not look at sizes and strides."""

    faults = ("H01", "C05")
    in_call = ((region_module, "EntryGuard", _AnyLayout),)


class SharedEntries(Mutant):
    """Regions with arguments of one description share a graph."""

    faults = ("H01", "G05")
    in_call = ((region_module, "EntryKey", lambda owner, description: EntryKey("one for all", description)),)


def _any_graph(cache: EntryCache[Any, Any], key: EntryKey) -> Any:
    alike = (graph for other, graph in cache._graphs.items() if other.owner == key.owner)
    return _graph(cache, key) or next(alike, None)


class FirstGraphForAll(Mutant):
    """A region that has a graph uses it for calls of every description."""

    faults = ("H01",)
    in_call = ((EntryCache, "graph", _any_graph),)


def _kept_graph(cache: Any, key: EntryKey) -> Any:
    kept = cache.__dict__.setdefault("kept", {})
    found = _graph(cache, key)
    if found is not None:
        kept[key] = found
    return kept.get(key)


class EvictedGraphUsed(Mutant):
    """A graph that had to make room for another, and was closed, is used again."""

    faults = ("D05", "H06")
    max_graphs = 1
    in_call = ((EntryCache, "graph", _kept_graph),)


def _needs_arguments(args: Tensors, in_place: Collection[int]) -> Hashable:
    return args[0].device, describe(args, in_place)


class NeedsInputs(Mutant):
    """The device of a region is taken from its first input, and a region without inputs has none."""

    faults = ("F08",)
    in_call = ((region_module, "describe", _needs_arguments),)
