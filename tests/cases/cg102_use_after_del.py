"""CG102: names used after their DEL."""

from __future__ import annotations

from cgverify.fuzzing import edits
from tests.cases.build import Pair, after_op, bad, chain, edited_body, fuse, good


@good
def deleted_after_last_use() -> Pair:
    before = chain()
    t0 = before.bound_symbols[2].output
    return before, after_op(before, 3, edits.deleted(t0))


@bad("CG102 computation:4")
def deleted_before_use() -> Pair:
    before = chain()
    t0 = before.bound_symbols[2].output
    return before, after_op(before, 2, edits.deleted(t0))


@bad("CG102 CUDAGraph0:3")
def deleted_before_region_returns() -> Pair:
    """Lightning Thunder issue 728: `del t0` before `return [t0]`."""
    before = chain()
    t1 = before.bound_symbols[3].output
    return before, edited_body(fuse(before, 2, 3), lambda ops: [*ops[:2], edits.deleted(t1), ops[2]])
