"""CG503: ops that run more often than before."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.builders import TraceBuilder
from tests.cases.build import Pair, after_op, bad, chain, fuse, good

from thunder.core.proxies import TensorProxy


@good
def equal_ops_stay_two() -> Pair:
    b = TraceBuilder("x")
    before = b.done(b.op("exp", b["x"]), b.op("exp", b["x"]))
    return before, fuse(before, 1, 1)


@bad("CG503 computation:3")
def op_left_behind_by_a_region() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    return before, after_op(after, 2, before.bound_symbols[2])


@bad("CG503 computation:5")
def op_that_was_not_there() -> Pair:
    before = chain()
    exp = before.bound_symbols[4].output
    other = edits.made(before, lambda: TensorProxy(like=exp))
    return before, after_op(before, 4, edits.torch_op("sin", exp, output=other))
