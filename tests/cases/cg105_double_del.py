"""CG105: names deleted twice."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.cases.build import Pair, after_op, bad, chain, edited_body, fuse, good


@good
def deleted_once() -> Pair:
    before = chain()
    return before, after_op(before, 3, edits.deleted(before.bound_symbols[2].output))


@bad("CG105 computation:5")
def deleted_twice() -> Pair:
    before = chain()
    gone = edits.deleted(before.bound_symbols[2].output)
    return before, after_op(before, 3, gone, gone)


@bad("CG105 CUDAGraph0:2")
def deleted_twice_by_one_del() -> Pair:
    before = chain()
    t0 = before.bound_symbols[2].output
    return before, edited_body(fuse(before, 2, 3), lambda ops: [*ops[:2], edits.deleted(t0, t0), ops[2]])
