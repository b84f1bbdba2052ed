"""CG204: shapes that depend on values, in a graph."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, fuse, good

from thunder.core.proxies import TensorProxy
from thunder.core.trace import TraceCtx


def _nonzero() -> TraceCtx:
    b = TraceBuilder("x")
    shifted = b.op("add", b["x"], 1.0)
    found = edits.made(b.trace, lambda: TensorProxy(like=b["x"]))
    before = b.done(found)
    op = edits.torch_op("nonzero", shifted, output=found)
    return edits.with_ops(before, [*before.bound_symbols[:2], op, before.bound_symbols[2]])


@good
def outside() -> Pair:
    before = _nonzero()
    return before, fuse(before, 1, 1)


@bad("CG201 CUDAGraph0:1", "CG204 CUDAGraph0:1")
def inside() -> Pair:
    before = _nonzero()
    return before, fuse(before, 1, 2)
