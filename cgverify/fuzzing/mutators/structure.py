"""Mutators of structure: names, deletions, texts that do not run, the interface."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cgverify.fuzzing import edits
from cgverify.fuzzing.mutators.base import mutator
from cgverify.fuzzing.mutators.lines import (
    another,
    instead,
    lines_of,
    names_of,
    ops_of,
    with_inserted,
)

from thunder.core import dtypes, prims
from thunder.core.proxies import TensorProxy, variableify
from thunder.core.pytree import tree_flatten, tree_unflatten
from thunder.core.trace import TraceCtx


@mutator("CG101")
def drop_region_output(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region no longer returns a value that is used outside, on any of its sides."""
    for site in edits.find_regions(after):
        if not site.bsym.output or site.plan is None:
            continue
        *kept, _ = site.bsym.flat_proxy_outs
        *ops, _ = site.body.bound_symbols
        body = edits.with_ops(site.body, [*ops, prims.python_return.bind(tuple(kept), output=None)])
        plan = replace(site.plan, outputs=site.plan.outputs[:-1])
        forged = edits.Forged(body, body.python(print_depth=1), plan)
        return edits.with_call(after, site, forged, output=list(kept))
    return None


@mutator("CG101")
def read_undefined(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op reads a value that nothing defines."""
    for line, index, bsym in ops_of(after):
        for position, argument in enumerate(bsym.args):
            if isinstance(argument, TensorProxy):
                other = another(after, argument)
                args = (*bsym.args[:position], other, *bsym.args[position + 1 :])
                return instead(line, index, bsym.from_bsym(args=args))
    return None


@mutator("CG102")
def delete_early(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A DEL before the last use."""
    for line in reversed(list(lines_of(after))):
        for index, bsym in enumerate(line.bsyms):
            if bsym.sym.id in edits.STRUCTURAL and bsym.sym.id is not prims.PrimIDs.RETURN:
                continue
            for proxy in bsym.flat_proxy_args:
                return with_inserted(line, index, edits.deleted(proxy))
    return None


@mutator("CG102")
def delete_early_in_region(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A DEL in a region's body, just before RETURN hands the value out."""
    for site in edits.find_regions(after):
        *ops, last = site.body.bound_symbols
        if last.flat_proxy_args:
            return edits.with_body(after, site, [*ops, edits.deleted(last.flat_proxy_args[0]), last])
    return None


@mutator("CG105")
def delete_twice(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A DEL repeated."""
    for line in lines_of(after):
        for index, bsym in enumerate(line.bsyms):
            if bsym.sym.id is prims.PrimIDs.DEL:
                return with_inserted(line, index, bsym)
    return None


@mutator("CG106")
def define_twice(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op repeated under the same name."""
    for line, index, bsym in ops_of(after):
        if bsym.flat_proxy_outs and not set(names_of(bsym.flat_proxy_outs)) & set(names_of(bsym.flat_proxy_args)):
            return with_inserted(line, index, bsym)
    return None


@mutator("CG107")
def break_text(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region's text loses its last bracket."""
    for site in edits.find_regions(after):
        head, bracket, tail = site.called.source.rpartition(")")
        if bracket:
            return edits.with_source(after, site, head + tail)
    return None


@mutator("CG107")
def lose_callable(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region's call context no longer holds its callable."""
    for site in edits.find_regions(after):
        return edits.replaced(after, site.index, site.bsym.from_bsym(_call_ctx={}))
    return None


@mutator("CG108")
def swap_parameters(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two parameters change places."""
    names = [name for name, _ in after.siginfo().args]
    if len(names) < 2:
        return None
    return edits.with_parameters(after, [names[1], names[0], *names[2:]])


@mutator("CG108")
def return_less(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """RETURN loses its last value."""
    returned = after.bound_symbols[-1]
    shortened = _shortened(returned.args)
    if shortened is None:
        return None
    return edits.replaced(after, len(after.bound_symbols) - 1, returned.from_bsym(args=shortened))


def _shortened(tree: Any) -> Any:
    """The nest without its last leaf; None if it has none."""
    if isinstance(tree, dict):
        for key in reversed(tree):
            shorter = _shortened(tree[key])
            if shorter is not None:
                return tree | {key: shorter}
        return None
    if not isinstance(tree, (tuple, list)):
        return None
    for index in reversed(range(len(tree))):
        item = tree[index]
        shorter = _shortened(item) if isinstance(item, (tuple, list, dict)) else ()
        if isinstance(item, (tuple, list, dict)):
            if shorter is not None:
                return type(tree)([*tree[:index], shorter, *tree[index + 1 :]])
        else:
            return type(tree)([*tree[:index], *tree[index + 1 :]])
    return None


@mutator("CG108")
def change_dtype(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A result claims another dtype."""
    for index, bsym in enumerate(after.bound_symbols):
        for position, proxy in enumerate(bsym.flat_proxy_outs):
            if bsym.sym.id in edits.STRUCTURAL or not isinstance(proxy, TensorProxy):
                continue
            flat, spec = tree_flatten(bsym.output)
            wrong = dtypes.float64 if proxy.dtype != dtypes.float64 else dtypes.float32
            flat[flat.index(proxy) if position == 0 else position] = edits.like(proxy, dtype=wrong)
            return edits.replaced(after, index, bsym.from_bsym(output=tree_unflatten(flat, spec)))
    return None


@mutator("CG108")
def return_nothing(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """The RETURN is gone."""
    return edits.with_ops(after, after.bound_symbols[:-1])


@mutator("CG109")
def shadow_global(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A parameter is renamed to the name of a global that the text calls."""
    names = [name for name, _ in after.siginfo().args]
    called = next((site.bsym.sym.name for site in edits.find_regions(after)), None)
    proxies = {p.name: p for b in after.bound_symbols for p in (*b.flat_proxy_args, *b.flat_proxy_outs)}
    for name in names:
        proxy = proxies.get(name)
        if called is None or not isinstance(proxy, TensorProxy):
            continue
        swap = {variableify(proxy): edits.like(proxy, name=called)}
        renamed = [bsym.from_bsym_swap_proxies(swap) for bsym in after.bound_symbols]
        new_names = [called if other == name else other for other in names]
        return edits.with_parameters(edits.with_ops(after, renamed), new_names)
    return None


@mutator("CG109")
def share_region_name(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two regions get one name, so that one callable serves both."""
    sites = list(edits.find_regions(after))
    if len(sites) < 2:
        return None
    name = sites[0].bsym.sym.name
    symbol = replace(sites[1].bsym.sym, name=name, _hash=None)
    return edits.replaced(after, sites[1].index, sites[1].bsym.from_bsym(sym=symbol, _call_ctx={name: sites[1].called}))
