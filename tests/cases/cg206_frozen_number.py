"""CG206: numbers known at run time only, at the border of a graph."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, fuse, good

from thunder.core.trace import TraceCtx


def _scaled_by_item() -> TraceCtx:
    b = TraceBuilder("x")
    number = b.op("item", b.op("sum", b["x"]))
    return b.done(b.op("exp", b.op("mul", b["x"], number)))


@good
def number_used_outside() -> Pair:
    before = _scaled_by_item()
    return before, fuse(before, 4, 4)


@bad("CG206 computation:3")
def number_passed_in() -> Pair:
    before = _scaled_by_item()
    return before, fuse(before, 3, 4)
