"""Mutators of memory: roles, aliases and lifetimes claimed wrongly."""

from __future__ import annotations

from dataclasses import replace

from cgverify.fuzzing import edits
from cgverify.fuzzing.edits import Site
from cgverify.fuzzing.mutators.base import mutator
from cgverify.fuzzing.mutators.lines import (
    another,
    instead,
    names_of,
    ops_of,
    own_results,
    written_parameters,
)
from cgverify.plan import InputRole, OutputRole
from cgverify.verifier.contracts import CGVERIFY, THUNDER_CUDAGRAPH

from thunder.core import prims
from thunder.core.proxies import Proxy, ProxyTag, TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx
from thunder.executors import torchex

_UNGUARDED = replace(CGVERIFY, name="unguarded", guards_addresses=False)


@mutator("CG301", _UNGUARDED)
def claim_static(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan calls an argument of the function static, and the runtime compares no addresses."""
    marked = {
        proxy.name
        for bsym in after.bound_symbols
        for proxy in bsym.flat_proxy_args
        if ProxyTag.STATIC_MEMORY_LOCATION in proxy.tags
    }
    return _claim_static(after, {name for name, _ in after.siginfo().args} - marked)


def _claim_static(after: TraceCtx, names: set[str]) -> TraceCtx | None:
    """The trace with one copied input out of these called static in a plan."""
    for site in edits.find_regions(after):
        entries = () if site.plan is None else site.plan.inputs
        for position, entry in enumerate(entries):
            if site.plan is not None and entry.role is InputRole.COPIED and entry.name in names:
                changed = (*entries[:position], replace(entry, role=InputRole.STATIC), *entries[position + 1 :])
                return edits.with_plan(after, site, replace(site.plan, inputs=changed))
    return None


@mutator("CG306", _UNGUARDED)
def pass_fresh_as_static(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region reads a fresh value in place, which its plan calls static, and the runtime compares no addresses."""
    for site in edits.find_regions(after):
        for position, argument in enumerate(site.bsym.args):
            if site.plan is None or not isinstance(argument, TensorProxy):
                continue
            entries = list(site.plan.inputs)
            entries[position] = replace(entries[position], role=InputRole.STATIC)
            fresh = another(after, argument)
            forged = edits.Forged(site.body, site.called.source, replace(site.plan, inputs=tuple(entries)))
            args = (*site.bsym.args[:position], fresh, *site.bsym.args[position + 1 :])
            called = edits.with_call(after, site, forged, args=args)
            made = edits.torch_op("exp", argument, output=fresh)
            return edits.replaced(called, site.index, made, called.bound_symbols[site.index])
    return None


@mutator("CG304", replace(CGVERIFY, name="unaware", guards_overlap=False))
def alias_arguments(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region says that an argument it writes shares memory with another one, and the runtime does not look."""
    for line, index, bsym in ops_of(after):
        if line.site is None or bsym.sym.name != "update_aliases" or len(bsym.flat_proxy_args) != 1:
            continue
        written = written_parameters(line) & set(names_of(bsym.flat_proxy_args))
        others = [p for p in line.site.bsym.flat_proxy_args if isinstance(p, TensorProxy) and p.name not in written]
        other = next(iter(others), None)
        if written and other is not None and not _is_static_input(line.site, {other.name, *written}):
            new = another(line.site.body, other)
            both = (*bsym.flat_proxy_args, other)
            return instead(line, index, bsym.from_bsym(args=(both,), output=(*bsym.flat_proxy_outs, new)))
    return None


def _is_static_input(site: Site, names: set[str]) -> bool:
    """Whether the plan calls one of these inputs static."""
    entries = () if site.plan is None else site.plan.inputs
    return any(entry.name in names and entry.role is InputRole.STATIC for entry in entries)


@mutator("CG305", replace(THUNDER_CUDAGRAPH, name="one pool", shares_pool=True))
def save_in_shared_pool(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region's own result is saved for a backward trace, and the runtime's graphs share a pool."""
    for site in edits.find_regions(after):
        own = own_results(site)
        for proxy in site.bsym.flat_proxy_outs:
            if proxy.name in own:
                return edits.replaced(after, len(after.bound_symbols) - 1, _saving(after, proxy))
    return None


def _saving(after: TraceCtx, proxy: Proxy) -> BoundSymbol:
    """RETURN as a forward trace has it, with one saved value."""
    returned = after.bound_symbols[-1]
    first = returned.args[0] if len(returned.args) == 1 else returned.args
    return returned.from_bsym(args=(first, ((proxy,), ())))


@mutator("CG307")
def overwrite_saved(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A value is saved for a backward trace and then written."""
    for bsym in edits.computing(after.bound_symbols):
        for proxy in bsym.flat_proxy_outs:
            if isinstance(proxy, TensorProxy) and proxy.name not in names_of(bsym.flat_proxy_args):
                write = torchex.ex.opmap["copy_"].bind(proxy, proxy, grad_enabled=True, output=another(after, proxy))
                *ops, _ = after.bound_symbols
                alive = [b for b in ops if b.sym.id is not prims.PrimIDs.DEL]
                return edits.with_ops(after, [*alive, write, _saving(after, proxy)])
    return None


@mutator("CG303")
def claim_fresh(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan calls a view of an input fresh."""
    for site in edits.find_regions(after):
        if site.plan is None:
            continue
        views = _views_of_parameters(site)
        outputs = tuple(replace(e, role=OutputRole.FRESH) if e.name in views else e for e in site.plan.outputs)
        if outputs != site.plan.outputs:
            return edits.with_plan(after, site, replace(site.plan, outputs=outputs))
    return None


def _views_of_parameters(site: Site) -> set[str]:
    """Values of the region that certainly share memory with a parameter."""
    views = {name for name, _ in site.body.siginfo().args}
    for bsym in site.body.bound_symbols:
        if bsym.sym.name in (
            "transpose",
            "permute",
            "unsqueeze",
            "update_aliases",
            "shallow_copy",
        ) and views.issuperset(names_of(bsym.flat_proxy_args)):
            views.update(names_of(bsym.flat_proxy_outs))
    return views


@mutator("CG302", THUNDER_CUDAGRAPH)
def hand_out_graph_memory(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """The runtime returns the graph's own memory."""
    handed = set(names_of(before.bound_symbols[-1].flat_proxy_args))
    own = {name for site in edits.find_regions(after) for name in own_results(site)}
    return edits.with_ops(after, after.bound_symbols) if handed & own else None


@mutator("CG302")
def claim_lent(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan lends a result that the caller gets."""
    handed = set(names_of(before.bound_symbols[-1].flat_proxy_args))
    for site in edits.find_regions(after):
        own = handed & own_results(site)
        if site.plan is not None and own:
            outputs = tuple(replace(e, role=OutputRole.LENT) if e.name in own else e for e in site.plan.outputs)
            if outputs != site.plan.outputs:
                return edits.with_plan(after, site, replace(site.plan, outputs=outputs))
    return None
