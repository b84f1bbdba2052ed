"""CG306: inputs read in place that are allocated anew on each call."""

from __future__ import annotations

from dataclasses import replace

from cgverify.verifier.contracts import CGVERIFY
from tests.cases.build import Pair, bad, chain, fuse, good, good_under

UNGUARDED = replace(CGVERIFY, name="unguarded", guards_addresses=False)


@good
def guarded() -> Pair:
    before = chain()
    return before, fuse(before, 3, 4, static={before.bound_symbols[2].output.name})


@good_under(UNGUARDED)
def copied() -> Pair:
    before = chain()
    return before, fuse(before, 3, 4)


@good_under(UNGUARDED)
def from_another_graph() -> Pair:
    """What one graph leaves in its memory stands there at each replay of the next one."""
    before = chain()
    first = before.bound_symbols[2].output.name
    return before, fuse(fuse(before, 3, 4, "CUDAGraph1", static={first}), 2, 2)


@bad("CG306 computation:3", contract=UNGUARDED)
def made_between_the_graphs() -> Pair:
    before = chain()
    return before, fuse(before, 3, 4, static={before.bound_symbols[2].output.name})
