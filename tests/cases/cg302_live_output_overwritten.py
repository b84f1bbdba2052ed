"""CG302: graph memory handed out, under a runtime that does so, or by a plan that lends too much."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, bare, chain, fuse, good, saving

from thunder.core.proxies import TensorProxy


@good
def runtime_hands_out_copies() -> Pair:
    before = chain()
    return before, fuse(before, 2, 4)


@good
def used_inside_only() -> Pair:
    """Thunder's runtime may keep what only the function itself reads."""
    before = chain()
    return before, bare(before, 2, 3)


@good
def lent_and_saved() -> Pair:
    """What is saved for the backward alone never reaches the caller."""
    before = saving(chain(), "t1")
    return before, fuse(before, 2, 4, lent=("t1",))


@good
def lent_to_a_later_op() -> Pair:
    before = chain()
    return before, fuse(before, 2, 3, lent=("t1",))


@bad("CG302 computation:2")
def returned() -> Pair:
    before = chain()
    return before, bare(before, 2, 4)


@bad("CG302 computation:1")
def returned_through_a_view() -> Pair:
    b = TraceBuilder("x")
    before = b.done(b.op("transpose", b.op("exp", b["x"]), 0, 1))
    return before, bare(before, 1, 1)


@bad("CG302 computation:2")
def lent_and_returned() -> Pair:
    before = saving(chain(), "t1", "t2")
    return before, fuse(before, 2, 4, lent=("t1", "t2"))


@bad("CG302 computation:2")
def lent_and_returned_through_a_view() -> Pair:
    b = TraceBuilder("x", "y")
    before = b.done(b.op("transpose", b.op("exp", b["x"]), 0, 1))
    return before, fuse(before, 2, 2, lent=("t0",))


@bad("CG302 computation:1")
def lent_and_returned_by_an_unknown_op() -> Pair:
    """An op that nobody knows may return its argument."""
    b = TraceBuilder("x")
    kept = b.op("exp", b["x"])
    result = edits.made(b.trace, lambda: TensorProxy(like=kept))
    b.trace.bound_symbols.append(edits.unknown_op("mystery", kept, result))
    before = b.done(result)
    return before, fuse(before, 1, 1, lent=(kept.name,))
