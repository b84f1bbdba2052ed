"""CG405: draws that the plan does not tell."""

from __future__ import annotations

from dataclasses import replace

from cgverify.verifier.contracts import PURE_REWRITE
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, bare, fuse, good

import torch
from thunder.core.trace import TraceCtx


def _dropout(p: float) -> TraceCtx:
    b = TraceBuilder("x")
    return b.done(b.op("exp", b.op("dropout", b["x"], p, True)))


def _uniform() -> TraceCtx:
    b = TraceBuilder()
    noise = b.op("uniform", (4, 4), 0.0, 1.0, device=torch.device("cuda:0"), dtype=torch.float32)
    return b.done(noise)


@good
def plan_says_random() -> Pair:
    before = _dropout(0.5)
    return before, fuse(before, 1, 2, random=True)


@good
def dropout_of_nothing_draws_nothing() -> Pair:
    before = _dropout(0.0)
    return before, fuse(before, 1, 2)


@bad("CG405 computation:1")
def plan_hides_dropout() -> Pair:
    before = _dropout(0.5)
    return before, fuse(before, 1, 2)


@bad("CG405 computation:0")
def plan_hides_a_draw_without_tags() -> Pair:
    before = _uniform()
    return before, fuse(before, 0, 0)


@bad(
    "CG405 computation:1",
    contract=replace(PURE_REWRITE, name="no generators", regions=r"MyGraph\d+", registers_rng=False),
)
def runtime_registers_no_generator() -> Pair:
    before = _dropout(0.5)
    return before, bare(before, 1, 2, "MyGraph0")
