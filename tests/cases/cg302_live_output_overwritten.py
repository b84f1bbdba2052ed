"""CG302: graph memory handed out, under a runtime that does so."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, bare, chain, fuse, good


@good
def runtime_hands_out_copies() -> Pair:
    before = chain()
    return before, fuse(before, 2, 4)


@good
def used_inside_only() -> Pair:
    """Thunder's runtime may keep what only the function itself reads."""
    before = chain()
    return before, bare(before, 2, 3)


@bad("CG302 computation:2")
def returned() -> Pair:
    before = chain()
    return before, bare(before, 2, 4)


@bad("CG302 computation:1")
def returned_through_a_view() -> Pair:
    b = TraceBuilder("x")
    before = b.done(b.op("transpose", b.op("exp", b["x"]), 0, 1))
    return before, bare(before, 1, 1)
