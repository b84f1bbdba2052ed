"""CG108: parameters, RETURN or metadata changed."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, chain, fuse, good, without

from thunder.core import dtypes


@good
def handed_through() -> Pair:
    before = chain()
    return before, fuse(before, 2, 4)


@bad("CG108 computation", "CG501 computation:2")
def parameters_exchanged() -> Pair:
    before = chain()
    return before, edits.with_parameters(before, ["y", "x"])


@bad("CG108 computation:3")
def value_not_returned() -> Pair:
    b = TraceBuilder("x")
    before = b.done(b.op("exp", b["x"]), b.op("sin", b["x"]))
    returned = before.bound_symbols[-1]
    return before, edits.replaced(before, 3, returned.from_bsym(args=((returned.args[0][0],),)))


@bad("CG108 computation")
def return_lost() -> Pair:
    before = chain()
    return before, without(before, 5)


@bad("CG108 computation:4")
def dtype_changed() -> Pair:
    before = chain()
    exp = before.bound_symbols[4]
    return before, edits.replaced(before, 4, exp.from_bsym(output=edits.like(exp.output, dtype=dtypes.float64)))


@bad("CG108 computation:4")
def requires_grad_changed() -> Pair:
    before = chain()
    exp = before.bound_symbols[4]
    return before, edits.replaced(before, 4, exp.from_bsym(output=edits.like(exp.output, requires_grad=True)))


@bad("CG108 computation:6")
def returned_twice() -> Pair:
    before = chain()
    return before, edits.with_ops(before, [*before.bound_symbols, before.bound_symbols[-1]])
