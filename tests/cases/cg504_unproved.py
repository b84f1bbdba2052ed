"""CG504: nothing else says why."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.cases.build import Pair, bad, chain, fuse, good


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
