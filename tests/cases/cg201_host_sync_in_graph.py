"""CG201: ops in a graph that make the host wait."""

from __future__ import annotations

from dataclasses import replace

from cgverify.fuzzing import edits
from cgverify.verifier.contracts import CGVERIFY
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, bare, fuse, good, good_under

from thunder.core.proxies import TensorProxy
from thunder.core.trace import TraceCtx


def _sum_item() -> TraceCtx:
    b = TraceBuilder("x")
    return b.done(b.op("item", b.op("sum", b["x"])))


@good
def item_between_graphs() -> Pair:
    before = _sum_item()
    return before, fuse(before, 1, 1)


@bad("CG201 CUDAGraph0:1", "CG206 computation:1")
def item_in_graph() -> Pair:
    before = _sum_item()
    return before, fuse(before, 1, 2)


@bad("CG201 CUDAGraph0:1", "CG206 computation:1", contract=replace(CGVERIFY, trusted=frozenset({"item"})))
def item_vouched_for() -> Pair:
    """Nobody can vouch for a number that the host must know."""
    before = _sum_item()
    return before, fuse(before, 1, 2)


@good_under(replace(CGVERIFY, trusted=frozenset({"inv"})))
def solver_vouched_for() -> Pair:
    """Whether a solver waits depends on library and size: the user may know better."""
    b = TraceBuilder("x")
    result = edits.made(b.trace, lambda: TensorProxy(like=b["x"]))
    b.trace.bound_symbols.append(edits.torch_op("inv", b["x"], output=result))
    before = b.done(result)
    return before, fuse(before, 1, 1)


@bad("CG201 CUDAGraph1:1", "CG206 computation:1")
def item_in_a_graph_of_thunders_own_transform() -> Pair:
    before = _sum_item()
    return before, bare(before, 1, 2)


@bad("CG201 CUDAGraph0:0")
def mask_as_index() -> Pair:
    """A boolean mask is counted on the host, whatever shape the trace claims."""
    b = TraceBuilder("x", "y")
    mask = b.op("gt", b["x"], b["y"])
    picked = edits.made(b.trace, lambda: TensorProxy(like=b["x"]))
    before = b.done(picked)
    getitem = edits.torch_op("__getitem__", b["x"], mask, output=picked)
    before = edits.with_ops(before, [*before.bound_symbols[:3], getitem, before.bound_symbols[3]])
    return before, fuse(before, 3, 3, views={picked.name})


@good
def mask_with_a_scalar() -> Pair:
    """Writing one number through a mask needs no count."""
    b = TraceBuilder("x", "y")
    before = b.done(b.op("masked_fill", b["x"], b.op("gt", b["x"], b["y"]), 0.0))
    return before, fuse(before, 2, len(before.bound_symbols) - 2)
