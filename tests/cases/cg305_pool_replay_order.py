"""CG305: saved tensors in a pool that other graphs use again."""

from __future__ import annotations

from dataclasses import replace

from cgverify.verifier.contracts import CGVERIFY, THUNDER_CUDAGRAPH
from tests.cases.build import Pair, bad, bare, chain, good_under, saving

SHARED = replace(THUNDER_CUDAGRAPH, name="one pool", shares_pool=True)


def _forward() -> Pair:
    before = chain()
    first = before.bound_symbols[2].output.name
    before = saving(before, first)
    return before, bare(before, 2, 4)


@good_under(replace(CGVERIFY, name="copies out", regions=r"CUDAGraph\d+", shares_pool=True))
def copies_are_saved() -> Pair:
    """A shared pool is harmless where results are copied out of it."""
    return _forward()


@bad("CG302 computation:2", "CG302 computation:2", "CG305 computation:2", contract=SHARED)
def saved_in_the_pool() -> Pair:
    return _forward()
