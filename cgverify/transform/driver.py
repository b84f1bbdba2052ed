"""Runs the passes in order on one trace; what its forward trace promises of addresses comes in from outside."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

from cgverify.ir import TraceView, view_trace
from cgverify.plan import CapturePlan, Region
from cgverify.transform.aliases import compute_aliases
from cgverify.transform.effects import Capturable, compute_effects
from cgverify.transform.emit import MakeCallable, emit_trace
from cgverify.transform.liveness import compute_liveness
from cgverify.transform.partition import choose_partition
from cgverify.transform.roles import Scheduled, choose_region, compute_addresses
from cgverify.transform.scalars import choose_scalars, feed_scalars

from thunder.core.trace import TraceCtx, TraceProvenance

PREFIX = "CUDAGraph"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The outcome for one trace.

    Attributes:
        trace: the emitted trace, or the very original where nothing can be graphed.
        plan: what is claimed about it.
    """

    trace: TraceCtx
    plan: CapturePlan


def rewrite_trace(
    trace: TraceCtx,
    make_callable: MakeCallable,
    *,
    capturable: Capturable = (),
    static: frozenset[str] = frozenset(),
    comments: bool = False,
) -> Rewrite:
    """Graphs what can be graphed in `trace`.

    Args:
        trace: an execution trace: after executors have claimed its ops.
        make_callable: turns a region and its body into what is executed.
        capturable: ops that the caller vouches for.
        static: names known to be static from the paired forward trace.
        comments: whether to say in the trace why an op was left out.

    Raises:
        TypeError: `trace` is not a Thunder trace.
    """
    started = time.perf_counter_ns()
    view = view_trace(trace)
    effects = compute_effects(view, capturable)
    aliases = compute_aliases(view, effects)
    scalars = choose_scalars(view, effects, aliases)
    if scalars:
        view = feed_scalars(view, scalars)
        effects = compute_effects(view, capturable)
        aliases = compute_aliases(view, effects)
    partition = choose_partition(view, effects, aliases)
    order = [(position, index) for position, phase in enumerate(partition.phases) for index in phase.ops]
    liveness = compute_liveness(view, order)
    addresses = compute_addresses(view, aliases, static)
    regions: list[Region] = []
    free = free_names(view)
    for position, phase in enumerate(partition.phases):
        if phase.device is not None:
            regions.append(choose_region(view, effects, liveness, addresses, Scheduled(phase, position), next(free)))
    plan = CapturePlan(view.name, tuple(regions), partition.left_out, scalars)
    if not regions and not comments:
        return Rewrite(trace, plan)
    emitted = emit_trace(view, partition.phases, plan, make_callable, comments=comments)
    elapsed = (time.perf_counter_ns() - started) // 1_000_000
    emitted.set_provenance(TraceProvenance(f"CUDA graph transform (took {elapsed} milliseconds)"))
    return Rewrite(emitted, plan)


def free_names(view: TraceView) -> Iterator[str]:
    """CUDAGraph0, CUDAGraph1, ... without those that the trace already uses for a symbol or a value."""
    taken = {op.name for op in view.ops} | view.values.keys()
    return (name for name in map(f"{PREFIX}{{}}".format, itertools.count()) if name not in taken)
