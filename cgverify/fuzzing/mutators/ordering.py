"""Mutators of ordering: writes and random draws lost, moved or repeated."""

from __future__ import annotations

from dataclasses import replace

from cgverify.fuzzing import edits
from cgverify.fuzzing.mutators.base import mutator
from cgverify.fuzzing.mutators.lines import (
    DRAWS,
    Line,
    claim,
    draws,
    lines_of,
    names_of,
    ops_of,
    origin_of,
    without,
    written_parameters,
)
from cgverify.verifier.contracts import THUNDER_CUDAGRAPH

from thunder.core import prims
from thunder.core.proxies import variableify
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx


@mutator("CG401")
def claim_unwritten(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan forgets that an input is written."""
    for site in edits.find_regions(after):
        written = written_parameters(Line(after, site))
        if site.plan is not None and written:
            inputs = tuple(replace(e, written=False) if e.name in written else e for e in site.plan.inputs)
            return edits.with_plan(after, site, replace(site.plan, inputs=inputs))
    return None


@mutator("CG405")
def claim_not_random(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan forgets that the region draws."""
    return claim(after, lambda plan: replace(plan, random=False)) if draws(after) else None


@mutator("CG404", THUNDER_CUDAGRAPH)
def warm_up_draws(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """The runtime warms a drawing region up without restoring the generator."""
    return edits.with_ops(after, after.bound_symbols) if draws(after) else None


@mutator("CG403", replace(THUNDER_CUDAGRAPH, name="in place, warmed up", writes_back=True))
def warm_up_writes(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """The runtime warms a writing region up at the caller's address."""
    written = any(written_parameters(Line(after, site)) for site in edits.find_regions(after))
    return edits.with_ops(after, after.bound_symbols) if written else None


@mutator("CG401")
def drop_write(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A write to a parameter is gone; what read its result reads the parameter."""
    parameters = {name for name, _ in after.siginfo().args}
    for line, index, bsym in ops_of(after):
        if bsym.sym.name == "copy_" and origin_of(line, bsym.args[1].name) in parameters:
            swap = {variableify(bsym.output): bsym.args[1]}
            rest = [other.from_bsym_swap_proxies(swap) for other in line.bsyms[index + 1 :] if _is_plain(other)]
            if len(rest) == len(line.bsyms) - index - 1 and line.site is None:
                return line.edited([*line.bsyms[:index], *rest])
            return without(line, index)
    return None


def _is_plain(bsym: BoundSymbol) -> bool:
    return not bsym.sym.is_fusion


@mutator("CG402")
def move_read_past_write(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op that reads memory before a write to it reads it after."""
    for line, index, write in ops_of(after):
        if write.sym.name != "copy_":
            continue
        target = origin_of(line, write.args[1].name)
        bsyms = line.bsyms
        for position in reversed(range(index)):
            bsym = bsyms[position]
            if bsym.sym.id in edits.STRUCTURAL or bsym.sym.is_fusion or bsym.sym.name in ("update_aliases", "copy_"):
                continue
            reads = {origin_of(line, name) for name in names_of(bsym.flat_proxy_args)}
            passed = [other for other in bsyms[position + 1 : index + 1] if other.sym.id is not prims.PrimIDs.DEL]
            between = {proxy.name for other in passed for proxy in other.flat_proxy_args}
            if target in reads and not between & set(names_of(bsym.flat_proxy_outs)):
                return line.edited([*bsyms[:position], *passed, bsym, *bsyms[index + 1 :]])
    return None


@mutator("CG402")
def swap_draws(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two random draws change places."""
    for line in lines_of(after):
        bsyms = line.bsyms
        draws = [index for index, bsym in enumerate(bsyms) if bsym.sym.name in DRAWS and not bsym.flat_proxy_args]
        if len(draws) > 1:
            first, second = draws[:2]
            bsyms.insert(first, bsyms.pop(second))
            return line.edited(bsyms)
    return None
