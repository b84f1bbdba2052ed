"""Mutators of regions: call, body, text and plan no longer say the same."""

from __future__ import annotations

from dataclasses import replace

from cgverify.fuzzing import edits
from cgverify.fuzzing.edits import Site
from cgverify.fuzzing.mutators.base import mutator
from cgverify.fuzzing.mutators.lines import (
    PURE,
    claim,
    instead,
    ops_of,
    other_number,
    swapped,
)

from thunder.core.trace import TraceCtx


@mutator("CG103")
def swap_call_arguments(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two arguments of a region's call change places."""
    for site in edits.find_regions(after):
        if len(site.bsym.args) > 1:
            first, second, *rest = site.bsym.args
            return edits.with_call(after, site, site.called, args=(second, first, *rest))
    return None


@mutator("CG103")
def swap_call_results(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two results of a region's call change places."""
    for site in edits.find_regions(after):
        if len(site.bsym.output) > 1:
            first, second, *rest = site.bsym.output
            return edits.with_call(after, site, site.called, output=[second, first, *rest])
    return None


@mutator("CG103")
def drop_call_argument(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region is called with one argument less."""
    for site in edits.find_regions(after):
        if site.bsym.args:
            return edits.with_call(after, site, site.called, args=site.bsym.args[:-1])
    return None


@mutator("CG103")
def claim_other_name(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region carries the plan of another one."""
    return claim(after, lambda plan: replace(plan, name=f"{plan.name}0"))


@mutator("CG103")
def claim_written(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan calls an input written that only ops without effects and views read."""
    for site in edits.find_regions(after):
        if site.plan is None or not all(bsym.sym.name in PURE for bsym in edits.computing(site.body.bound_symbols)):
            continue
        first, *rest = site.plan.inputs or (None,)
        if first is not None:
            inputs = (replace(first, written=True), *rest)
            return edits.with_plan(after, site, replace(site.plan, inputs=inputs))
    return None


@mutator("CG103")
def lose_plan(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """One of several regions carries no plan."""
    sites = list(edits.find_regions(after))
    if len(sites) < 2:
        return None
    return edits.with_call(after, sites[-1], edits.Forged(sites[-1].body, sites[-1].called.source, None))


@mutator("CG104")
def other_text(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region executes a text in which two arguments of one op changed places, or a number differs."""
    for site in edits.find_regions(after):
        corrupted = _altered_region(after, site)
        if corrupted is not None:
            changed = next(s for s in edits.find_regions(corrupted) if s.index == site.index)
            return edits.with_source(after, site, changed.called.source)
    return None


def _altered_region(after: TraceCtx, site: Site) -> TraceCtx | None:
    """The trace with one op of the region altered."""
    for line, index, bsym in ops_of(after):
        if line.site is None or line.site.index != site.index:
            continue
        altered = swapped(bsym) or other_number(bsym)
        if altered is not None:
            return instead(line, index, altered)
    return None


@mutator("CG104")
def other_subsymbols(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region executes another body than its subsymbols say."""
    for site in edits.find_regions(after):
        corrupted = _altered_region(after, site)
        if corrupted is not None:
            changed = next(s for s in edits.find_regions(corrupted) if s.index == site.index)
            return edits.with_call(after, site, changed.called)
    return None


@mutator("CG104")
def claim_other_ops(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region's plan lists its first op twice."""
    return claim(after, lambda plan: replace(plan, ops=(*plan.ops, plan.ops[0])))
