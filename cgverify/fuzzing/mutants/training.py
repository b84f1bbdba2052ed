"""Faults of training: saved tensors lent in graph memory, gradients, cotangents (group C)."""

from __future__ import annotations

from collections.abc import Sequence

from cgverify.api import CUDAGraphTransform
from cgverify.fuzzing.mutants.base import Mutant, with_fault
from cgverify.fuzzing.mutants.copying import StaleInput
from cgverify.fuzzing.mutants.reusing import EveryInputInPlace, UnguardedLayouts, UnguardedStrides
from cgverify.ir import is_backward
from cgverify.plan import Region
from cgverify.runtime import graph as graph_module
from cgverify.runtime import pool as pool_module
from cgverify.runtime.graph import CapturedGraph
from cgverify.runtime.leases import Lender, find_blocker
from cgverify.runtime.region import GraphedRegion

import torch
from thunder.core.trace import TraceCtx

Tensors = Sequence[torch.Tensor]

_replay = CapturedGraph.replay


class UncheckedLeases(Mutant):
    """A graph is replayed although tensors that it lent are still held for a backward."""

    faults = ("C01", "C03")
    path = "jit"
    in_call = ((graph_module, "find_blocker", lambda lenders, serial: None),)


def _own_leases_only(lenders: Sequence[Lender], serial: int) -> Lender | None:
    return find_blocker([lender for lender in lenders if lender.serial == serial], serial)


class OnlyOwnLeases(Mutant):
    """A graph heeds the tensors that it lent itself, and overwrites those of younger graphs."""

    faults = ("C03", "D03")
    path = "jit"
    in_call = ((graph_module, "find_blocker", _own_leases_only),)


def _forget_closed(lenders: list[Lender]) -> None:
    lenders[:] = [lender for lender in lenders if lender.kept]


class ForgottenLeases(Mutant):
    """What a graph lent is forgotten when the graph makes room for another."""

    faults = ("C03", "D05")
    path = "jit"
    max_graphs = 2
    in_call = ((pool_module, "prune", _forget_closed),)


class _InBackward(Mutant):
    """A fault of backward traces alone."""

    path = "jit"

    def rewrite(self, trace: TraceCtx, *, forward: TraceCtx | None = None) -> TraceCtx:
        """Rewrites `trace`, with the fault if it is a backward trace."""
        self._plants = self.in_call if is_backward(trace) else ()
        return super().rewrite(trace, forward=forward)

    def _make_callable(self, region: Region, body: TraceCtx) -> GraphedRegion:
        return with_fault(CUDAGraphTransform._make_callable(self, region, body), self._plants)


class StaleCotangent(_InBackward):
    """The first input of a backward region is never copied in."""

    faults = ("C05", "C04")
    in_call = StaleInput.in_call


class UnguardedCotangent(_InBackward):
    """Backward calls that differ in strides alone share a graph."""

    faults = ("C05",)
    in_call = (*UnguardedStrides.in_call, *UnguardedLayouts.in_call)


class SavedInPlace(_InBackward):
    """A backward reads every saved tensor where the first forward left it."""

    faults = ("C04", "C01")
    in_call = EveryInputInPlace.in_call


def _without_last_result(graph: CapturedGraph, args: Tensors) -> list[torch.Tensor]:
    *results, last = _replay(graph, args)
    return [*results, torch.zeros_like(last)]


class SkippedGradient(_InBackward):
    """The last gradient of a backward region stays zero at replays."""

    faults = ("C06",)
    in_call = ((CapturedGraph, "replay", _without_last_result),)
