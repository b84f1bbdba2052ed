"""CG101: names that nothing defines."""

from __future__ import annotations

from tests.cases.build import Pair, bad, chain, edited_body, fuse, good, without


@good
def every_value_defined() -> Pair:
    before = chain()
    return before, fuse(before, 2, 3)


@bad("CG101 computation:2", "CG502 computation")
def producer_gone() -> Pair:
    before = chain()
    return before, without(before, 2)


@bad("CG101 CUDAGraph0:0", "CG502 computation")
def producer_gone_in_region() -> Pair:
    before = chain()
    return before, edited_body(fuse(before, 2, 3), lambda ops: ops[1:])
