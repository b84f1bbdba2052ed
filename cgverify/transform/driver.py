"""Runs the passes in order on one trace; what its forward trace promises of addresses comes in from outside."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

from cgverify.ir import TraceView, view_trace
from cgverify.plan import CapturePlan, DeviceScalar, Region
from cgverify.transform.aliases import AliasSets, compute_aliases
from cgverify.transform.effects import Capturable, Effects, compute_effects
from cgverify.transform.emit import MakeCallable, emit_trace
from cgverify.transform.liveness import compute_liveness
from cgverify.transform.partition import Partition, choose_partition
from cgverify.transform.roles import Scheduled, choose_region, compute_addresses
from cgverify.transform.scalars import choose_scalars, feed_scalars, has_device_numbers
from cgverify.transform.sizes import compute_inner_sizes, compute_sizes

from thunder.core.trace import TraceCtx, TraceProvenance

PREFIX = "CUDAGraph"

TRIALS = 4
"""Schedules that are tried with some sizes computed inside regions; then none is."""


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
    view, scalars = _feed(view, capturable)
    effects, aliases, partition = _schedule(view, capturable)
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


def _feed(view: TraceView, capturable: Capturable) -> tuple[TraceView, tuple[DeviceScalar, ...]]:
    """The trace whose ops read on the device what they can, and what was replaced."""
    if not has_device_numbers(view):
        return view, ()
    effects = compute_effects(view, capturable)
    scalars = choose_scalars(view, effects, compute_aliases(view, effects))
    return feed_scalars(view, scalars), scalars


def _schedule(view: TraceView, capturable: Capturable) -> tuple[tuple[Effects, ...], AliasSets, Partition]:
    """The partition, with as many sizes inside regions as cross no border, and the facts that it was chosen by."""
    sizes = compute_sizes(view)
    trials = 0
    while True:
        effects = compute_effects(view, capturable, sizes)
        aliases = compute_aliases(view, effects)
        partition = choose_partition(view, effects, aliases)
        inner = compute_inner_sizes(view, partition, sizes)
        if len(inner) == len(sizes):
            return effects, aliases, partition
        trials += 1
        sizes = inner if trials < TRIALS else {}


def free_names(view: TraceView) -> Iterator[str]:
    """CUDAGraph0, CUDAGraph1, ... without those that the trace already uses for a symbol or a value."""
    taken = {op.name for op in view.ops} | view.values.keys()
    return (name for name in map(f"{PREFIX}{{}}".format, itertools.count()) if name not in taken)
