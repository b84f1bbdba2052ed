"""CG401: writes that never reach the caller."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, bare, edited_body, fuse, good, without

from thunder.core.trace import TraceCtx


def _accumulate(state: str = "state") -> TraceCtx:
    b = TraceBuilder("x", state)
    b.op("copy_", b.op("add", b["x"], b["state"]), b["state"], grad_enabled=False)
    return b.done(b.op("exp", b["x"]))


@good
def marked_as_written() -> Pair:
    before = _accumulate()
    return before, fuse(before, 2, 4, written={"state"})


@bad("CG401 computation:2")
def plan_forgets_it() -> Pair:
    before = _accumulate()
    return before, fuse(before, 2, 4)


@bad("CG401 computation")
def write_dropped() -> Pair:
    before = _accumulate()
    return before, without(before, 3)


@bad("CG103 computation:2", "CG401 computation")
def write_dropped_in_region() -> Pair:
    before = _accumulate()
    after = fuse(before, 2, 4, written={"state"})
    return before, edited_body(after, lambda ops: [ops[0], *ops[2:]])


@bad("CG302 computation:2", "CG401 computation:2")
def copied_in_and_never_back() -> Pair:
    """Thunder's own transform copies inputs that are not at a fixed address, and copies nothing back."""
    before = _accumulate()
    return before, bare(before, 2, 4)


@bad("CG302 computation:2", "CG403 computation:2")
def static_input_is_written_where_it_stands() -> Pair:
    """A parameter at a fixed address is reached, four times on the first call."""
    before = _accumulate("state!")
    return before, bare(before, 2, 4)
