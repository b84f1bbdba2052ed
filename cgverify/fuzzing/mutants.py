"""Mutants: transforms and runtimes with one planted fault each, to score the verifier and the fuzzer by.

Each mutant is cgverify's own transform with one decision turned wrong, as a Thunder `Transform` that can be put under
test like any other (`--cgverify-target cgverify.fuzzing.mutants:StaleInput`). Its verifier is off, so that the fault
gets as far as it can. A *static* fault shows in the emitted trace and carries the code by which the verifier must
reject it; an *emulated* one shows when the calls are made on the emulation as on a GPU; a *gpu* one needs real hardware
to show.

Faults are planted by replacing names in the transform's and the runtime's modules while the mutant is at work: during
the rewrite, or during each call of a region.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal
from unittest import mock

from cgverify.api import CUDAGraphTransform
from cgverify.ir import Op, TraceView
from cgverify.plan import Region
from cgverify.runtime import graph as graph_module
from cgverify.runtime import pool as pool_module
from cgverify.runtime import region as region_module
from cgverify.runtime import results as results_module
from cgverify.runtime.graph import CapturedGraph
from cgverify.runtime.guards import Refusal, describe
from cgverify.runtime.region import GraphedRegion
from cgverify.runtime.results import Result
from cgverify.transform import driver, effects, emit, partition
from cgverify.transform.effects import Effects
from cgverify.transform.tables import CAPTURABLE

import torch
from thunder.core import prims
from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

Shows = Literal["static", "emulated", "gpu"]
Plants = Sequence[tuple[Any, str, Any]]
"""What a fault replaces: (module or class, name, the wrong value)."""

MUTANTS: list[type[Mutant]] = []
"""Every mutant, in the order of this file."""


class Mutant(CUDAGraphTransform):
    """cgverify's transform with one fault.

    Attributes:
        code: the verifier's code for the fault; empty where the trace does not show it.
        shows: the cheapest place where it shows.
        in_rewrite: what to replace while a trace is rewritten.
        in_call: what to replace while a region is called.
    """

    code: ClassVar[str] = ""
    shows: ClassVar[Shows] = "emulated"
    in_rewrite: ClassVar[Plants] = ()
    in_call: ClassVar[Plants] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        MUTANTS.append(cls)

    def __init__(self) -> None:
        super().__init__(verify=False)

    def rewrite(self, trace: TraceCtx, *, forward: TraceCtx | None = None) -> TraceCtx:
        """Rewrites `trace` with the fault in place."""
        with _planted(self.in_rewrite):
            return super().rewrite(trace, forward=forward)

    def _make_callable(self, region: Region, body: TraceCtx) -> GraphedRegion:
        made = super()._make_callable(region, body)
        if self.in_call:
            made.__class__ = type("FaultyRegion", (GraphedRegion,), {"__call__": _call_with(self.in_call)})
        return made


@contextlib.contextmanager
def _planted(plants: Plants) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for target, name, value in plants:
            stack.enter_context(mock.patch.object(target, name, value))
        yield


def _call_with(plants: Plants) -> Callable[..., list[torch.Tensor]]:
    def call(self: GraphedRegion, *args: torch.Tensor) -> list[torch.Tensor]:
        with _planted(plants):
            return GraphedRegion.__call__(self, *args)

    return call


# The right functions, for faults that are nearly right.
_emit_body = emit.emit_body
_allocate = CapturedGraph._allocate
_sources = CapturedGraph._sources
_graph_replay = CapturedGraph.replay
_region_replay = GraphedRegion._replay
_ungraphed = GraphedRegion._ungraphed
_view_of_block = results_module._view_of_block
_view_of_fresh = results_module._view_of_fresh

# ------------------------------------------------------------------------------------ faults of the rewrite


def _any_device(view: TraceView, found: Sequence[Effects], index: int) -> str | None:
    return None if found[index].barrier else "cuda:0"


def _only_tensors(op: Op, nested: object) -> str | None:
    tensors = [isinstance(proxy, TensorProxy) for proxy in op.proxies()]
    return None if tensors and all(tensors) else "works on something other than tensors"


class CapturedItem(Mutant):
    """`.item()` joins a region, because only the prim's id is looked for and the torch executor's is another."""

    code = "CG201"
    shows = "static"
    in_rewrite = (
        (effects, "_REFUSED_IDS", {k: v for k, v in effects._REFUSED_IDS.items() if k not in ("item", PrimIDs.ITEM)}),
        (effects, "CAPTURABLE", CAPTURABLE | {"item"}),
        (effects, "_forbidden_operands", lambda op, nested: None),
        (partition, "_colour", _any_device),
    )


class CapturedHostTensor(Mutant):
    """Ops on CPU tensors join a region, where they run once, at capture."""

    code = "CG202"
    shows = "static"
    in_rewrite = ((effects, "_forbidden_operands", _only_tensors), (partition, "_colour", _any_device))


def _body_that_deletes_its_result(name: str, bsyms: Any, inputs: Any, outputs: Any) -> TraceCtx:
    body = _emit_body(name, bsyms, inputs, outputs)
    *ops, last = body.bound_symbols
    body.bound_symbols = [*ops, *(prims.python_del.bind(proxy, output=None) for proxy in outputs[:1]), last]
    return body


class DeletedBeforeReturn(Mutant):
    """A region's body deletes what it returns: `del t0` stands before `return [t0]`."""

    code = "CG102"
    shows = "static"
    in_rewrite = ((emit, "emit_body", _body_that_deletes_its_result),)


def _dels_after_first_use(bsyms: Any, kept: Any) -> list[BoundSymbol]:
    done, placed = set(kept), []
    for bsym in bsyms:
        if bsym.sym.id is PrimIDs.DEL:
            continue
        placed.append(bsym)
        if bsym.sym.id not in (PrimIDs.RETURN, PrimIDs.UNPACK_TRIVIAL, PrimIDs.COMMENT):
            doomed = {proxy.name: proxy for proxy in bsym.flat_proxy_args if proxy.name not in done}
            done |= doomed.keys()
            placed += [prims.python_del.bind(proxy, output=None) for proxy in doomed.values()]
    return placed


class DeletedAfterFirstUse(Mutant):
    """DELs stand after the first use of a value instead of the last."""

    code = "CG102"
    shows = "static"
    in_rewrite = ((emit, "place_dels", _dels_after_first_use),)


class ForgottenWrite(Mutant):
    """The plan calls written inputs unwritten, so nothing is copied back to the caller."""

    code = "CG401"
    shows = "static"

    def _make_callable(self, region: Region, body: TraceCtx) -> GraphedRegion:
        inputs = tuple(replace(entry, written=False) for entry in region.inputs)
        return super()._make_callable(replace(region, inputs=inputs), body)


class _NoAliases:
    """Claims that every value has memory of its own."""

    def representative(self, name: str) -> str:
        return name


class ReadMovedPastWrite(Mutant):
    """The schedule ignores shared memory: a read may move past a write to what it reads under another name."""

    code = "CG402"
    shows = "static"
    in_rewrite = ((driver, "compute_aliases", lambda view, found: _NoAliases()),)


# ------------------------------------------------------------------------------------ faults of the runtime


def _graph_memory(graph: CapturedGraph) -> list[torch.Tensor]:
    return [*graph._fresh, *_allocate(graph)[len(graph._fresh) :]]


class SharedResult(Mutant):
    """Callers get the graph's own memory: the next call overwrites the results they hold."""

    in_call = ((CapturedGraph, "_allocate", _graph_memory), (graph_module, "FEW", -1))


def _sources_but_the_first(graph: CapturedGraph, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [graph._sinks[0], *_sources(graph, args)[1:]]


class StaleInput(Mutant):
    """The first copied input is never copied in: replays read whatever its buffer holds."""

    in_call = ((CapturedGraph, "_sources", _sources_but_the_first),)


class _NothingWrittenBack(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._written_back = []


class LostWrite(Mutant):
    """Replays write the static buffer and never the caller's tensor."""

    in_call = ((region_module, "CapturedGraph", _NothingWrittenBack),)


def _describe_without_addresses(args: Sequence[torch.Tensor], in_place: Collection[int]) -> Hashable:
    return describe(args, ())


class UnguardedStaticInput(Mutant):
    """Parameters are read where they were at capture, whether they are still there or not."""

    in_call = ((region_module, "describe", _describe_without_addresses),)


class UnguardedStrides(Mutant):
    """Calls that differ in strides alone share a graph."""

    in_call = ((region_module, "describe", lambda args, in_place: tuple((arg.dtype, arg.size()) for arg in args)),)


def _three_warm_ups(region: GraphedRegion, args: Sequence[torch.Tensor], refusal: Refusal) -> list[torch.Tensor]:
    if refusal is Refusal.FIRST_CALL:
        for _ in range(2):
            region._run(*args)
    return _ungraphed(region, args, refusal)


class RepeatedWarmUp(Mutant):
    """The first call warms up by running the body three times: writes and draws happen three times."""

    in_call = ((GraphedRegion, "_ungraphed", _three_warm_ups),)


def _replay_with_still_generator(
    region: GraphedRegion, graph: CapturedGraph, args: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    state = torch.cuda.get_rng_state(region.plan.device)
    results = _region_replay(region, graph, args)
    torch.cuda.set_rng_state(state, region.plan.device)
    return results


class StillGenerator(Mutant):
    """A replay leaves the generator where it was: the next draw repeats its numbers."""

    in_call = ((GraphedRegion, "_replay", _replay_with_still_generator),)


class DetachedView(Mutant):
    """A result that is an input or a view of one is copied: it no longer follows the caller's tensor."""

    in_call = ((results_module, "_alias_of_input", lambda result, buffers: None),)


def _copied_view_of_block(position: int, result: torch.Tensor, start: int) -> Result:
    make = _view_of_block(position, result, start)
    return lambda args, fresh: make(args, fresh).clone()


def _copied_view_of_fresh(position: int, result: torch.Tensor, owner: torch.Tensor) -> Result:
    make = _view_of_fresh(position, result, owner)
    return lambda args, fresh: make(args, fresh).clone()


class SeparatedResults(Mutant):
    """Results that share memory get memory of their own each."""

    in_call = (
        (results_module, "_view_of_block", _copied_view_of_block),
        (results_module, "_view_of_fresh", _copied_view_of_fresh),
    )


def _replay_swapped(graph: CapturedGraph, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    results = _graph_replay(graph, args)
    for k, (one, other) in enumerate(itertools.pairwise(results)):
        if one.shape == other.shape and one.dtype is other.dtype:
            return [*results[:k], other, one, *results[k + 2 :]]
    return results


class SwappedResults(Mutant):
    """Replays hand out two results of one shape and dtype in the wrong order."""

    in_call = ((CapturedGraph, "replay", _replay_swapped),)


class _Inert(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._graph = mock.Mock(wraps=self._graph, replay=lambda: None)


class SkippedReplay(Mutant):
    """A call with a captured graph copies in and out and launches nothing."""

    in_call = ((region_module, "CapturedGraph", _Inert),)


class _FrozenAtFirst(CapturedGraph):
    first: list[torch.Tensor] | None = None

    def replay(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        self.first = super().replay(args) if self.first is None else self.first
        return list(self.first)


class FrozenResults(Mutant):
    """After the capture, every call gets the results of the first replay again."""

    in_call = ((region_module, "CapturedGraph", _FrozenAtFirst),)


def _aligned_in(store: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return store.view(tensor.dtype).as_strided(tensor.size(), tensor.stride())


class IgnoredAlignment(Mutant):
    """Static buffers are aligned better than the caller's tensors: kernels vectorise and so sum in another order."""

    shows = "gpu"
    in_call = ((pool_module, "buffer_in", _aligned_in),)
