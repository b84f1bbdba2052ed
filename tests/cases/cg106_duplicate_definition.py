"""CG106: names defined twice."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, after_op, bad, chain, fuse, good


@good
def argument_returned_by_the_op() -> Pair:
    """An op that returns its own argument defines nothing."""
    b = TraceBuilder("x", "y")
    before = b.done(b.op("copy_", b["x"], b["y"], grad_enabled=False))
    return before, fuse(before, 2, 2, written={"y"}, views={before.bound_symbols[2].output.name})


@bad("CG106 computation:3", "CG503 computation:3")
def op_repeated_under_its_name() -> Pair:
    before = chain()
    return before, after_op(before, 2, before.bound_symbols[2])
