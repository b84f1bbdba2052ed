"""CG307: values saved for the backward trace and overwritten before it reads them."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.builders import TraceBuilder
from tests.cases.build import Pair, after_op, bad, fuse, good, saving

from thunder.core.proxies import TensorProxy
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


@good
def read_by_an_unknown_op() -> Pair:
    """An op that nobody knows may write what is saved, and is not known to."""
    b = TraceBuilder("x", "y")
    scaled = b.op("exp", b["y"])
    result = edits.made(b.trace, lambda: TensorProxy(like=scaled))
    b.trace.bound_symbols.append(edits.unknown_op("mystery", scaled, result))
    before = saving(b.done(result), scaled.name)
    return before, fuse(before, 2, 2)


@bad("CG307 computation:5", "CG501 computation:5", "CG503 computation:4")
def overwritten_after_its_use() -> Pair:
    before = _product()
    scaled = before.bound_symbols[2].output
    write = torchex.ex.opmap["copy_"].bind(before.args[0], scaled, grad_enabled=True, output=scaled)
    return before, after_op(before, 3, write)


@bad("CG307 computation:6", *["CG501 computation:6"] * 3, "CG503 computation:5")
def one_more_than_before() -> Pair:
    """A fault that is older excuses no new one."""
    before = _product()
    scaled = before.bound_symbols[2].output
    write = torchex.ex.opmap["copy_"].bind(before.args[0], scaled, grad_enabled=True, output=scaled)
    other = torchex.ex.opmap["copy_"].bind(scaled, before.args[0], grad_enabled=True, output=before.args[0])
    return after_op(before, 3, write), after_op(after_op(before, 3, write), 4, other)
