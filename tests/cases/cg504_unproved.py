"""CG504: nothing else says why."""

from __future__ import annotations

from tests.cases.build import Pair, bad, chain, fuse, good

from cgverify.fuzzing import edits


@good
def proved() -> Pair:
    before = chain()
    return before, fuse(before, 2, 4)


@bad("CG103 computation:2", "CG504 computation")
def region_called_without_arguments() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    site = next(edits.find_regions(after))
    return before, edits.with_call(after, site, site.called, args=())
