"""CG203: two devices in a graph."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, fuse, good

from thunder.core.trace import TraceCtx


def _two_devices() -> TraceCtx:
    b = TraceBuilder("x", "y:cuda:1")
    return b.done(b.op("exp", b["x"]), b.op("exp", b["y"]))


@good
def one_graph_per_device() -> Pair:
    before = _two_devices()
    return before, fuse(fuse(before, 3, 3, "CUDAGraph1", device="cuda:1"), 2, 2)


@bad("CG203 CUDAGraph0:1")
def two_devices_in_one_graph() -> Pair:
    before = _two_devices()
    return before, fuse(before, 2, 3)


@bad("CG203 CUDAGraph0:0")
def plan_names_another_device() -> Pair:
    before = _two_devices()
    return before, fuse(before, 2, 2, device="cuda:1")
