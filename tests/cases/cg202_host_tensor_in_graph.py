"""CG202: host tensors in a graph."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, fuse, good


@good
def host_work_outside() -> Pair:
    b = TraceBuilder("x", "h:cpu")
    before = b.done(b.op("exp", b["x"]), b.op("exp", b["h"]))
    return before, fuse(before, 2, 2)


@bad("CG202 CUDAGraph0:1")
def host_op_in_graph() -> Pair:
    b = TraceBuilder("x", "h:cpu")
    before = b.done(b.op("exp", b["x"]), b.op("exp", b["h"]))
    return before, fuse(before, 2, 3)


@bad("CG202 CUDAGraph0:0")
def copy_to_the_host() -> Pair:
    b = TraceBuilder("x")
    before = b.done(b.op("to", b["x"], "cpu"))
    return before, fuse(before, 1, 1)
