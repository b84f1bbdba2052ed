"""CG501: other values than before."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, chain, edited_body, fuse, good

from thunder.executors import torchex


@good
def same_values() -> Pair:
    before = chain()
    return before, fuse(before, 2, 4)


@good
def alias_names_differ() -> Pair:
    """`update_aliases` hands its argument on: reading either name reads the same tensor."""
    b = TraceBuilder("x", "y")
    (alias,) = b.op("update_aliases", (b["x"],))
    before = b.done(b.op("add", alias, b["y"]))
    add = before.bound_symbols[3]
    return before, edits.replaced(before, 3, add.from_bsym(args=(b["x"], *add.args[1:])))


@bad("CG501 CUDAGraph0:1")
def constant_changed() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    return before, edited_body(after, lambda ops: [ops[0], ops[1].from_bsym(args=(ops[1].args[0], 3.0)), *ops[2:]])


@bad("CG501 CUDAGraph0:1")
def constant_of_another_type() -> Pair:
    """2 and 2.0 are equal in Python, and different in a trace: the result's dtype may depend on it."""
    before = chain()
    after = fuse(before, 2, 4)
    return before, edited_body(after, lambda ops: [ops[0], ops[1].from_bsym(args=(ops[1].args[0], 2)), *ops[2:]])


@bad("CG501 CUDAGraph0:2")
def other_op() -> Pair:
    before = chain()
    after = fuse(before, 2, 4)
    return before, edited_body(after, lambda ops: [*ops[:2], ops[2].from_bsym(sym=torchex.ex.opmap["sin"]), ops[3]])


@bad("CG501 CUDAGraph0:0")
def operands_exchanged() -> Pair:
    b = TraceBuilder("x", "y")
    before = b.done(b.op("sub", b["x"], b["y"]))
    after = fuse(before, 2, 2)
    return before, edited_body(after, lambda ops: [ops[0].from_bsym(args=(ops[0].args[1], ops[0].args[0])), ops[1]])


@bad("CG501 computation:3", "CG501 computation:3")
def returned_values_exchanged() -> Pair:
    b = TraceBuilder("x")
    before = b.done(b.op("exp", b["x"]), b.op("sin", b["x"]))
    after = fuse(before, 1, 1)
    returned = after.bound_symbols[-1]
    return before, edits.replaced(after, 3, returned.from_bsym(args=(tuple(reversed(returned.args[0])),)))


@bad("CG501 computation:3")
def one_of_two_equal_results_returned_twice() -> Pair:
    """The caller gets one tensor where it got two: writing to one now changes the other."""
    b = TraceBuilder("x")
    before = b.done(b.op("exp", b["x"]), b.op("exp", b["x"]))
    first = before.bound_symbols[1].output
    return before, edits.replaced(before, 3, before.bound_symbols[3].from_bsym(args=((first, first),)))


@bad("CG501 computation:4", "CG501 computation:4")
def written_one_of_two_equal_values_exchanged() -> Pair:
    """Equal until one of them is written."""
    b = TraceBuilder("x")
    first, second = b.op("exp", b["x"]), b.op("exp", b["x"])
    b.op("copy_", b["x"], first, grad_enabled=False)
    before = b.done(first, second)
    returned = before.bound_symbols[4]
    return before, edits.replaced(before, 4, returned.from_bsym(args=((second, first),)))


@bad("CG501 computation:2")
def argument_too_few() -> Pair:
    b = TraceBuilder("x", "y")
    before = b.done(b.op("cat", [b["x"], b["y"]]))
    cat = before.bound_symbols[2]
    return before, edits.replaced(before, 2, cat.from_bsym(args=([b["x"]], *cat.args[1:])))
