"""CG303: views of inputs that come out as views of copies."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, bare, fuse, good

from thunder.core.trace import TraceCtx


def _transposed() -> TraceCtx:
    b = TraceBuilder("x")
    return b.done(b.op("transpose", b["x"], 0, 1), b.op("exp", b["x"]))


@good
def marked_as_alias() -> Pair:
    before = _transposed()
    return before, fuse(before, 1, 2, views={before.bound_symbols[1].output.name})


@bad("CG303 computation:1")
def called_fresh() -> Pair:
    before = _transposed()
    return before, fuse(before, 1, 2)


@bad("CG302 computation:1", "CG303 computation:1")
def thunders_own_transform() -> Pair:
    before = _transposed()
    return before, bare(before, 1, 2)
