"""CG103: a region's call, body and plan disagree about arguments or results."""

from __future__ import annotations

from dataclasses import replace

from cgverify.fuzzing import edits
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, bare, chain, fuse, good


@good
def sides_agree() -> Pair:
    before = chain()
    return before, fuse(before, 2, 4)


@good
def body_without_plan_may_rename() -> Pair:
    """Without a plan, arguments are matched by position."""
    before = chain()
    return before, fuse(before, 2, 4, "Fused0", plan=False)


@bad("CG103 computation:2", "CG501 CUDAGraph0:0")
def arguments_exchanged() -> Pair:
    b = TraceBuilder("x", "y")
    before = b.done(b.op("sub", b["x"], b["y"]))
    after = fuse(before, 2, 2)
    site = next(edits.find_regions(after))
    return before, edits.with_call(after, site, site.called, args=tuple(reversed(site.bsym.args)))


@bad("CG103 computation:2", "CG501 computation:3", "CG501 computation:3")
def results_exchanged() -> Pair:
    b = TraceBuilder("x", "y")
    before = b.done(b.op("sub", b["x"], b["y"]), b.op("add", b["x"], b["y"]))
    after = fuse(before, 2, 3)
    site = next(edits.find_regions(after))
    return before, edits.with_call(after, site, site.called, output=list(reversed(site.bsym.output)))


@bad("CG103 computation:2")
def plan_of_another_region() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_plan(after, site, replace(site.plan, name="CUDAGraph7"))


@bad("CG103 computation:2")
def plan_calls_written_what_is_only_read() -> Pair:
    before = chain()
    return before, fuse(before, 2, 4, written={"x"})


@bad("CG103 computation:4")
def one_region_without_a_plan() -> Pair:
    """What is called like a graph is judged as one."""
    before = chain()
    after = fuse(before, 4, 4, "CUDAGraph1", plan=False)
    return before, fuse(after, 2, 2, "CUDAGraph0")


@bad("CG302 computation:2")
def no_region_with_a_plan() -> Pair:
    """Called like a graph and without a plan, it is judged under the contract that promises least."""
    before = chain()
    return before, fuse(before, 2, 4, plan=False)


@bad("CG103 computation:2", "CG504 computation")
def argument_missing() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_call(after, site, site.called, args=site.bsym.args[:1])


@bad("CG103 computation:2", "CG302 computation:2", "CG504 computation")
def subsymbols_need_more_than_the_arguments() -> Pair:
    before = chain()
    after = bare(before, 2, 4)
    call = after.bound_symbols[2]
    return before, edits.replaced(after, 2, call.from_bsym(args=call.args[:1]))


@bad("CG103 computation:2")
def single_result_bound() -> Pair:
    """Results are bound as a list, even one."""
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_call(after, site, site.called, output=site.bsym.output[0])


@bad("CG103 computation:2", "CG302 computation:2", "CG502 computation")
def result_that_nothing_computes() -> Pair:
    before = chain()
    after = bare(before, 2, 4)
    call = after.bound_symbols[2]
    return before, edits.replaced(after, 2, call.from_bsym(subsymbols=call.subsymbols[:2]))
