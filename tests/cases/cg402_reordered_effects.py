"""CG402: reads, writes and draws in another order."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.cases.build import Pair, bad, fuse, good, moved

import torch
from thunder.core.trace import TraceCtx


def _read_write_read() -> TraceCtx:
    """Ops 2 to 5: `sum(x)`, `x + y`, `copy_` into x, `exp(x)`."""
    b = TraceBuilder("x", "y")
    first = b.op("sum", b["x"])
    b.op("copy_", b.op("add", b["x"], b["y"]), b["x"], grad_enabled=False)
    return b.done(first, b.op("exp", b["x"]))


def _two_draws() -> TraceCtx:
    b = TraceBuilder("x")
    draws = [
        b.op("uniform", (4, 4), low, 1.0, device=torch.device("cuda:0"), dtype=torch.float32) for low in (0.0, 0.5)
    ]
    return b.done(*draws, b.op("exp", b["x"]))


@good
def order_kept() -> Pair:
    before = _read_write_read()
    return before, fuse(before, 2, 5, written={"x"})


@good
def reads_exchanged() -> Pair:
    """Two reads between the same writes may change places."""
    before = _read_write_read()
    return before, moved(before, 2, 3)


@good
def op_on_other_memory_moved_across() -> Pair:
    b = TraceBuilder("x", "y")
    shifted = b.op("add", b["y"], 1.0)
    b.op("copy_", shifted, b["x"], grad_enabled=False)
    before = b.done(b.op("exp", shifted))
    return before, moved(before, 4, 3)


@bad("CG402 computation:4")
def read_moved_past_write() -> Pair:
    before = _read_write_read()
    return before, moved(before, 2, 4)


@bad("CG402 computation:4")
def read_moved_before_write() -> Pair:
    before = _read_write_read()
    return before, moved(before, 5, 4)


@bad("CG402 computation:3")
def read_of_a_possible_alias_moved_before_write() -> Pair:
    """Two parameters may be one tensor."""
    b = TraceBuilder("x", "y", "z")
    b.op("copy_", b["z"], b["x"], grad_enabled=False)
    before = b.done(b.op("exp", b["y"]))
    return before, moved(before, 4, 3)


@bad("CG402 computation:1")
def draws_exchanged() -> Pair:
    before = _two_draws()
    return before, moved(before, 2, 1)


@good
def pure_op_moved_across_draws() -> Pair:
    before = _two_draws()
    return before, moved(before, 3, 1)
