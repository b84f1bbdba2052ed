"""CG502: ops that never run."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, chain, edited_body, fuse, good, without


@good
def op_in_region() -> Pair:
    before = chain()
    return before, fuse(before, 3, 3)


@bad("CG502 computation")
def unused_op_gone() -> Pair:
    b = TraceBuilder("x")
    b.op("sin", b["x"])
    before = b.done(b.op("exp", b["x"]))
    return before, without(before, 1)


@bad("CG502 computation")
def op_of_region_gone() -> Pair:
    b = TraceBuilder("x")
    b.op("sin", b["x"])
    before = b.done(b.op("exp", b["x"]))
    return before, edited_body(fuse(before, 1, 2), lambda ops: ops[1:])


@bad("CG101 computation:4", "CG106 computation:5", "CG502 computation")
def op_behind_return() -> Pair:
    before = chain()
    bsyms = before.bound_symbols
    after = without(before, 4)
    after.bound_symbols = [*after.bound_symbols, bsyms[4]]
    return before, after
