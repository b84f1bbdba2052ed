"""CG307: values saved for the backward trace and overwritten before it reads them."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, after_op, bad, good, saving

from thunder.core.trace import TraceCtx
from thunder.executors import torchex


def _product() -> TraceCtx:
    b = TraceBuilder("x", "y")
    scaled = b.op("exp", b["y"])
    return saving(b.done(b.op("mul", b["x"], scaled)), scaled.name, "x")


@good
def nothing_is_written() -> Pair:
    before = _product()
    return before, before


@good
def written_before_it_is_saved() -> Pair:
    """What is saved under the name that the write gave is what the backward trace should read."""
    b = TraceBuilder("x", "y")
    (alias,) = b.op("update_aliases", (b["y"],))
    written = b.op("copy_", b.op("exp", alias), alias, grad_enabled=True)
    before = saving(b.done(b.op("mul", b["x"], written)), written.name, "x")
    return before, before


@good
def the_fault_is_older() -> Pair:
    """The trace before does the same: that is a warning, no error of the transform."""
    before = _product()
    scaled = before.bound_symbols[2].output
    write = torchex.ex.opmap["copy_"].bind(before.args[0], scaled, grad_enabled=True, output=scaled)
    before = after_op(before, 3, write)
    return before, before


@bad("CG307 computation:5", "CG501 computation:5", "CG503 computation:4")
def overwritten_after_its_use() -> Pair:
    before = _product()
    scaled = before.bound_symbols[2].output
    write = torchex.ex.opmap["copy_"].bind(before.args[0], scaled, grad_enabled=True, output=scaled)
    return before, after_op(before, 3, write)
