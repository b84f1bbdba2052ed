"""Mutators of equivalence: other values, ops missing, repeated, or beyond proof."""

from __future__ import annotations

from cgverify.fuzzing import edits
from cgverify.fuzzing.mutators.base import mutator
from cgverify.fuzzing.mutators.lines import (
    another,
    instead,
    names_of,
    ops_of,
    other_number,
    swapped,
    with_inserted,
    without,
)

from thunder.core.proxies import Proxy, TensorProxy
from thunder.core.pytree import tree_flatten, tree_unflatten
from thunder.core.trace import TraceCtx
from thunder.executors import torchex


@mutator("CG501")
def change_constant(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A constant differs."""
    for line, index, bsym in ops_of(after):
        altered = other_number(bsym)
        if altered is not None:
            return instead(line, index, altered)
    return None


@mutator("CG501")
def swap_operands(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two arguments of an op change places."""
    for line, index, bsym in ops_of(after):
        altered = swapped(bsym)
        if altered is not None and bsym.sym.name != "copy_":
            return instead(line, index, altered)
    return None


@mutator("CG501")
def change_op(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A multiplication becomes a division."""
    for line, index, bsym in ops_of(after):
        if bsym.sym.name == "mul" and bsym.sym.executor is torchex.ex:
            return instead(line, index, bsym.from_bsym(sym=torchex.ex.opmap["true_divide"]))
    return None


@mutator("CG501")
def swap_returned(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two values of RETURN change places."""
    returned = after.bound_symbols[-1]
    flat, spec = tree_flatten(returned.args)
    for first in range(len(flat)):
        for second in range(first + 1, len(flat)):
            one, other = flat[first], flat[second]
            if isinstance(one, TensorProxy) and isinstance(other, TensorProxy) and _differ(before, one, other):
                flat[first], flat[second] = other, one
                args = tree_unflatten(flat, spec)
                return edits.replaced(after, len(after.bound_symbols) - 1, returned.from_bsym(args=args))
    return None


def _differ(trace: TraceCtx, one: Proxy, other: Proxy) -> bool:
    """Whether two values come from ops that differ in more than the name they define."""
    makers = [
        (bsym.sym.name, str(bsym.args), str(bsym.kwargs))
        for proxy in (one, other)
        for bsym in trace.bound_symbols
        if proxy.name in names_of(bsym.flat_proxy_outs)
    ]
    return one.name != other.name and len(set(makers)) == 2


@mutator("CG502")
def drop_op(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op without effects is gone."""
    effects = ("copy_", "update_aliases", "shallow_copy", "clear_mutable_collection", "batch_norm", "instance_norm")
    for line, index, bsym in ops_of(after):
        if bsym.sym.name not in effects and bsym.flat_proxy_outs:
            return without(line, index)
    return None


@mutator("CG503")
def repeat_op(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op runs again under another name."""
    for line, index, bsym in ops_of(after):
        if isinstance(bsym.output, TensorProxy) and bsym.sym.name not in ("copy_", "shallow_copy"):
            return with_inserted(line, index + 1, bsym.from_bsym(output=another(after, bsym.output)))
    return None


@mutator("CG504")
def call_without_arguments(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region is called without arguments, so that nothing is known of what it computes."""
    for site in edits.find_regions(after):
        if all(set(names_of(bsym.flat_proxy_args)) for bsym in edits.computing(site.body.bound_symbols)):
            return edits.with_call(after, site, site.called, args=())
    return None
