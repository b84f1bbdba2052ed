"""CG403: writes repeated by warm-up runs."""

from __future__ import annotations

from dataclasses import replace

from cgverify.verifier.contracts import CGVERIFY
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, fuse, good

from thunder.core.trace import TraceCtx


def _count() -> TraceCtx:
    b = TraceBuilder("count!")
    b.op("copy_", b.op("add", b["count"], 1.0), b["count"], grad_enabled=False)
    return b.done()


@good
def first_call_is_the_warm_up() -> Pair:
    before = _count()
    return before, fuse(before, 1, 2, written={"count"})


@bad("CG403 computation:1", contract=replace(CGVERIFY, name="warms up", warm_up_runs=3))
def warmed_up_at_the_callers_address() -> Pair:
    before = _count()
    return before, fuse(before, 1, 2, written={"count"})
