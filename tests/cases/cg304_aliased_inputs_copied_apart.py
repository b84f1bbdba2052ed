"""CG304: arguments that share memory, one of them written, each copied into a buffer of its own."""

from __future__ import annotations

from dataclasses import replace

from cgverify.verifier.contracts import CGVERIFY
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, fuse, good, good_under

from thunder.core.trace import TraceCtx

UNAWARE = replace(CGVERIFY, name="unaware", guards_overlap=False)


def _overlapping(write: bool = True) -> TraceCtx:
    """What Thunder makes of a call whose two arguments share memory."""
    b = TraceBuilder("x", "y")
    x, y = b.op("update_aliases", (b["x"], b["y"]))
    if write:
        x = b.op("copy_", b.op("exp", x), x, grad_enabled=False)
    return b.done(b.op("add", x, y))


@good
def told_apart_at_run_time() -> Pair:
    """Our runtime runs such a call un-graphed."""
    before = _overlapping()
    return before, fuse(before, 2, 5, written={"x"})


@good_under(UNAWARE)
def nothing_written() -> Pair:
    before = _overlapping(write=False)
    return before, fuse(before, 2, 3)


@bad("CG304 computation:2", contract=UNAWARE)
def one_is_written() -> Pair:
    before = _overlapping()
    return before, fuse(before, 2, 5, written={"x"})
