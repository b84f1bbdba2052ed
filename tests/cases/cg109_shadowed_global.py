"""CG109: values that hide a global, and callables that hide each other."""

from __future__ import annotations

from dataclasses import replace

from cgverify.fuzzing import edits
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, chain, fuse, good


@good
def names_apart() -> Pair:
    before = chain()
    return before, fuse(fuse(before, 4, 4, "CUDAGraph1"), 2, 2, "CUDAGraph0")


@bad("CG109 computation:0", "CG109 computation:1")
def parameter_called_torch() -> Pair:
    b = TraceBuilder("torch")
    before = b.done(b.op("exp", b.op("sin", b["torch"])))
    return before, fuse(before, 1, 1)


@bad("CG103 computation:4", "CG109 computation:4")
def regions_of_one_name() -> Pair:
    before = chain()
    after = fuse(fuse(before, 4, 4, "CUDAGraph1"), 2, 2, "CUDAGraph0")
    call = after.bound_symbols[4]
    called = call._call_ctx["CUDAGraph1"]
    symbol = replace(call.sym, name="CUDAGraph0", _hash=None)
    return before, edits.replaced(after, 4, call.from_bsym(sym=symbol, _call_ctx={"CUDAGraph0": called}))
