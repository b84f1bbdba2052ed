"""CG104: a region executes something else than it prints."""

from __future__ import annotations

from dataclasses import replace

from cgverify.fuzzing import edits
from tests.cases.build import Pair, bad, chain, fuse, good


@good
def text_and_body_agree() -> Pair:
    before = chain()
    return before, fuse(before, 2, 4)


@bad("CG104 CUDAGraph0:1")
def text_has_another_number() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_source(after, site, site.called.source.replace("2.0", "3.0"))


@bad("CG104 CUDAGraph0:0")
def text_exchanges_arguments() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_source(after, site, site.called.source.replace("add(x, y", "add(y, x"))


@bad("CG104 computation:2")
def text_goes_on() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_source(after, site, site.called.source + "\n  print(1)")


@bad("CG104 CUDAGraph0:1")
def subsymbols_stand_in_another_order() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    call = after.bound_symbols[2]
    first, second, third = call.subsymbols
    return before, edits.replaced(after, 2, call.from_bsym(subsymbols=(first, third, second)))


@bad("CG104 computation:2")
def text_is_not_told() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_call(after, site, edits.Forged(site.body, None, site.plan))  # type: ignore[arg-type]


@bad("CG104 computation:2")
def plan_lists_other_ops() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    assert site.plan is not None
    return before, edits.with_plan(after, site, replace(site.plan, ops=(2, 4, 3)))


@bad("CG104 computation:2")
def plan_lists_fewer_ops() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    assert site.plan is not None
    return before, edits.with_plan(after, site, replace(site.plan, ops=(2, 3)))
