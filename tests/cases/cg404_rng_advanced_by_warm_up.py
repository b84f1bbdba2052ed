"""CG404: draws repeated by warm-up runs."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, bare, fuse, good

import torch
from thunder.core.trace import TraceCtx


def _draw() -> TraceCtx:
    b = TraceBuilder("x")
    noise = b.op("uniform", (4, 4), 0.0, 1.0, device=torch.device("cuda:0"), dtype=torch.float32)
    return b.done(b.op("sum", b.op("add", b["x"], noise)))


@good
def first_call_is_the_warm_up() -> Pair:
    before = _draw()
    return before, fuse(before, 1, 2, random=True)


@bad("CG404 computation:1")
def warmed_up() -> Pair:
    before = _draw()
    return before, bare(before, 1, 2)
