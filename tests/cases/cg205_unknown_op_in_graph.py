"""CG205: ops in a graph that nobody knows."""

from __future__ import annotations

from dataclasses import replace

from cgverify.fuzzing import edits
from cgverify.verifier.contracts import CGVERIFY, PURE_REWRITE
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, bare, fuse, good, good_under

from thunder.core import prims
from thunder.core.proxies import TensorProxy
from thunder.core.trace import TraceCtx


def _mystery() -> TraceCtx:
    b = TraceBuilder("x")
    shifted = b.op("add", b["x"], 1.0)
    made = edits.made(b.trace, lambda: TensorProxy(like=b["x"]))
    before = b.done(made)
    op = edits.unknown_op("mystery", shifted, made)
    return edits.with_ops(before, [*before.bound_symbols[:2], op, before.bound_symbols[2]])


@good
def outside() -> Pair:
    before = _mystery()
    return before, fuse(before, 1, 1)


@bad("CG205 CUDAGraph0:1", "CG405 computation:1")
def inside() -> Pair:
    """The worst is assumed: here, that it draws."""
    before = _mystery()
    return before, fuse(before, 1, 2)


@bad("CG205 CUDAGraph0:0", "CG303 computation:1", "CG401 computation:1", "CG405 computation:1")
def inside_on_an_input() -> Pair:
    """The worst is assumed: that it writes its argument, draws, and hands the argument out."""
    b = TraceBuilder("x")
    made = edits.made(b.trace, lambda: TensorProxy(like=b["x"]))
    before = b.done(made)
    op = edits.unknown_op("mystery", b["x"], made)
    before = edits.with_ops(before, [before.bound_symbols[0], op, before.bound_symbols[1]])
    return before, fuse(before, 1, 1)


@good_under(replace(CGVERIFY, trusted=frozenset({"mystery"})))
def vouched_for() -> Pair:
    """What the user vouches for writes nothing that it does not show, and is told in a note."""
    before = _mystery()
    return before, fuse(before, 1, 2, random=True)


@bad("CG205 MyGraph0:1", contract=replace(PURE_REWRITE, regions=r"MyGraph\d+"))
def prints_inside() -> Pair:
    """A replay prints nothing."""
    b = TraceBuilder("x")
    shifted = b.op("add", b["x"], 1.0)
    edits.made(b.trace, lambda: prims.python_print("shifted"))
    before = b.done(shifted)
    return before, bare(before, 1, 2, "MyGraph0")
