"""Mutants: transforms and runtimes with one planted fault each, to score the verifier and the fuzzer by.

Each mutant is cgverify's own transform with one decision turned wrong, as a Thunder `Transform` that can be put under
test like any other (`--cgverify-target cgverify.fuzzing.mutants:StaleInput`). Its verifier is off, so that the fault gets
as far as it can. A *static* fault shows in the emitted trace and carries the code by which the verifier must reject it;
an *emulated* one shows when the calls are made on the emulation as on a GPU; a *gpu* one needs real hardware to show.

Faults are planted by replacing names in the transform's and the runtime's modules while the mutant is at work: during
the rewrite, or during each call of a region.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal
from unittest import mock

from cgverify.api import CUDAGraphTransform
from cgverify.plan import InputRole, Region
from cgverify.runtime import graph as graph_module
from cgverify.runtime import region as region_module
from cgverify.runtime.graph import CapturedGraph
from cgverify.runtime.guards import Refusal, describe
from cgverify.runtime.region import GraphedRegion
from cgverify.transform import driver, effects, emit, partition

import torch
from thunder.core import prims
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


# ------------------------------------------------------------------------------------ faults of the rewrite


def _without(table: Mapping[Any, str], *keys: Hashable) -> dict[Any, str]:
    return {key: value for key, value in table.items() if key not in keys}


class CapturedItem(Mutant):
    """`.item()` joins a region, because only the prim's id is looked for and the torch executor's is another."""

    code = "CG201"
    shows = "static"
    in_rewrite = (
        (effects, "_REFUSED_IDS", _without(effects._REFUSED_IDS, "item", prims.PrimIDs.ITEM)),
        (effects, "CAPTURABLE", effects.CAPTURABLE | {"item"}),
        (effects, "_forbidden_operands", lambda op, nested: None),
        (partition, "_colour", lambda view, found, index: None if found[index].barrier else "cuda:0"),
    )


class CapturedHostTensor(Mutant):
    """Ops on CPU tensors join a region, where they run once, at capture."""

    code = "CG202"
    shows = "static"
    in_rewrite = (
        (effects, "_forbidden_operands", lambda op, nested: None if _has_tensor(op) else "has no tensor"),
        (partition, "_colour", lambda view, found, index: None if found[index].barrier else "cuda:0"),
    )


def _has_tensor(op: Any) -> bool:
    return any(type(proxy).__name__ == "TensorProxy" for proxy in op.proxies()) and not any(
        type(proxy).__name__.endswith(("IntegerProxy", "FloatProxy", "CollectionProxy")) for proxy in op.proxies()
    )


def _dels_before_return(bsyms: Any, kept: Any) -> list[BoundSymbol]:
    """A body deletes its results just before it returns them."""
    *ops, last = emit.place_dels(bsyms, kept)
    doomed = [] if last.sym.id is not prims.PrimIDs.RETURN else last.flat_proxy_args[:1]
    return [*ops, *(prims.python_del.bind(proxy, output=None) for proxy in doomed), last]


class DeletedBeforeReturn(Mutant):
    """A region's body deletes what it returns: `del t0` stands before `return [t0]`."""

    code = "CG102"
    shows = "static"
    in_rewrite = ((emit, "emit_body", None),)  # set below, since it wraps emit_body itself


def _body_with_early_del(name: str, bsyms: Any, inputs: Any, outputs: Any) -> TraceCtx:
    body = _emit_body(name, bsyms, inputs, outputs)
    body.bound_symbols = _dels_before_return(body.bound_symbols, [proxy.name for proxy in outputs])
    return body


_emit_body = emit.emit_body
DeletedBeforeReturn.in_rewrite = ((emit, "emit_body", _body_with_early_del),)


def _dels_after_first_use(bsyms: Any, kept: Any) -> list[BoundSymbol]:
    """Deletes each value after its first use instead of its last."""
    keep, placed, gone = set(kept), [], set[str]()
    for bsym in bsyms:
        if bsym.sym.id is prims.PrimIDs.DEL:
            continue
        placed.append(bsym)
        if bsym.sym.id in (prims.PrimIDs.RETURN, prims.PrimIDs.UNPACK_TRIVIAL, prims.PrimIDs.COMMENT):
            continue
        for proxy in bsym.flat_proxy_args:
            if proxy.name not in keep and proxy.name not in gone:
                gone.add(proxy.name)
                placed.append(prims.python_del.bind(proxy, output=None))
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


class ReadMovedPastWrite(Mutant):
    """The schedule ignores memory: a read may move past a write to what it reads."""

    code = "CG402"
    shows = "static"
    in_rewrite = ((driver, "compute_aliases", lambda view, found: _NoAliases()),)


class _NoAliases:
    """Claims that every value has memory of its own."""

    def representative(self, name: str) -> str:
        return name


# ------------------------------------------------------------------------------------ faults of the runtime


class SharedResult(Mutant):
    """Callers get the graph's own memory: the next call overwrites the results they hold."""

    in_call = ((CapturedGraph, "_copy_out", lambda self: _graph_memory(self)),)


_copy_out = CapturedGraph._copy_out


def _graph_memory(graph: CapturedGraph) -> list[torch.Tensor]:
    return [*graph._fresh, *_copy_out(graph)[len(graph._fresh) :]]


class StaleInput(Mutant):
    """The first copied input is never copied in again: replays read its value at capture, or garbage."""

    in_call = ((CapturedGraph, "_sources", lambda self, args: [self._sinks[0], *_sources(self, args)[1:]]),)


_sources = CapturedGraph._sources


class _NothingWrittenBack(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._written_back = []


class LostWrite(Mutant):
    """Replays write the static buffer and never the caller's tensor."""

    in_call = ((region_module, "CapturedGraph", _NothingWrittenBack),)


def _describe_without_addresses(region: Region, args: Sequence[torch.Tensor], copied: frozenset[int]) -> Hashable:
    every = frozenset(k for k, entry in enumerate(region.inputs) if entry.role is InputRole.STATIC)
    return describe(region, args, copied | every)


class UnguardedStaticInput(Mutant):
    """Parameters are read where they were at capture, whether they are still there or not."""

    in_call = ((region_module, "describe", _describe_without_addresses),)


class UnguardedStrides(Mutant):
    """Two calls that differ in strides alone share a graph."""

    in_call = (
        (region_module, "describe", lambda region, args, copied: tuple((arg.dtype, arg.size()) for arg in args)),
    )


_ungraphed = GraphedRegion._ungraphed


def _three_warm_ups(self: GraphedRegion, args: Sequence[torch.Tensor], refusal: Refusal) -> list[torch.Tensor]:
    if refusal is Refusal.FIRST_CALL:
        for _ in range(2):
            self._run(*args)
    return _ungraphed(self, args, refusal)


class RepeatedWarmUp(Mutant):
    """The first call warms up by running the body three times: writes and draws happen three times."""

    in_call = ((GraphedRegion, "_ungraphed", _three_warm_ups),)


_replay = GraphedRegion._replay


def _replay_with_still_generator(
    self: GraphedRegion, graph: CapturedGraph, args: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    state = torch.cuda.get_rng_state(self.plan.device)
    results = _replay(self, graph, args)
    torch.cuda.set_rng_state(state, self.plan.device)
    return results


class StillGenerator(Mutant):
    """A replay leaves the generator where it was: the next draw repeats its numbers."""

    in_call = ((GraphedRegion, "_replay", _replay_with_still_generator),)


class DetachedView(Mutant):
    """A result that is a view of an input is copied: it no longer follows the caller's tensor."""

    in_call = ((graph_module, "_alias_of_input", lambda result, buffers: None),)


class SeparatedResults(Mutant):
    """Results that share memory get memory of their own each."""

    in_call = ((graph_module, "_view_of_block", None),)  # set below, since it wraps _view_of_block itself


_view_of_block = graph_module._view_of_block


def _copied_view(position: int, result: torch.Tensor, start: int) -> Any:
    make = _view_of_block(position, result, start)
    return lambda args, fresh: make(args, fresh).clone()


SeparatedResults.in_call = ((graph_module, "_view_of_block", _copied_view),)


class SwappedResults(Mutant):
    """Replays hand out two results of the same type in the wrong order."""

    in_call = ((CapturedGraph, "replay", lambda self, args: _swap(_graph_replay(self, args))),)


_graph_replay = CapturedGraph.replay


def _swap(results: list[torch.Tensor]) -> list[torch.Tensor]:
    for k, (one, other) in enumerate(zip(results, results[1:], strict=False)):
        if one.shape == other.shape and one.dtype is other.dtype:
            return [*results[:k], other, one, *results[k + 2 :]]
    return results


class SkippedReplay(Mutant):
    """A call with a captured graph copies in and out and launches nothing."""

    in_call = ((region_module, "CapturedGraph", None),)  # set below


class _Inert(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._graph = mock.Mock(wraps=self._graph, replay=lambda: None)


SkippedReplay.in_call = ((region_module, "CapturedGraph", _Inert),)


class FrozenResults(Mutant):
    """After the capture, every call gets the results of the first replay again."""

    in_call = ((GraphedRegion, "_replay", None),)  # set below


def _replay_once(self: Any, graph: CapturedGraph, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    if not hasattr(graph, "first_results"):
        graph.first_results = _replay(self, graph, args)  # type: ignore[attr-defined]
    return list(graph.first_results)


FrozenResults.in_call = ((GraphedRegion, "_replay", _replay_once),)


class IgnoredAlignment(Mutant):
    """Static buffers are aligned better than the caller's tensors: kernels vectorise and so sum in another order."""

    shows = "gpu"
    in_call = ((graph_module, "buffer_like", lambda tensor: _aligned_like(tensor)),)


def _aligned_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
