"""The peak of reserved memory of each peer, in a process of its own.

In one process peers blur each other: torch keeps segments, cuBLAS a workspace for each stream, and what one peer lets
go of counts for the next. Workspaces are shown as well. Their size is the library's choice (32 MiB on Hopper), whatever
the model: one for each stream and thread that works un-graphed, and one for captures, on a stream of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cgverify.bench.cases import CASES, Workload
from cgverify.bench.measure import ReservedMemory
from cgverify.bench.peers import FLOOR, make_peer
from cgverify.bench.rows import OK, Row
from cgverify.fuzzing.workers import call_in_order

import torch

STEADY_CALLS = 3
"""Calls in which the peak is taken, when nothing is compiled or captured any more."""

PROCESSES = 4
"""How many peers are measured at a time: nothing is timed meanwhile."""

PATIENCE = 180.0
"""Seconds that a peer may take."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes above those of inputs and parameters.

    Attributes:
        reserved: the peak in later calls, after `empty_cache`.
        first: the peak in the first calls, one for each set of inputs.
        workspaces: of cuBLAS, within both; 0 on the emulation.
    """

    reserved: int
    first: int
    workspaces: int


def with_memory(rows: Sequence[Row]) -> list[Row]:
    """The rows of one case, each with the memory of its peer where that ran well, measured on the GPU."""
    measured = [row for row in rows if row.status == OK and row.peer != FLOOR]
    jobs = [(row.case, row.executor, row.peer) for row in measured]
    found = dict(zip(jobs, call_in_order(_measure_apart, jobs, PROCESSES, 1, PATIENCE), strict=True))
    return [_with_memory(row, found) for row in rows]


def measure(workload: Workload, executor: str, peer_name: str) -> Memory:
    """Makes a peer ready in this process, calls it on each set of inputs, and then on the first a few times more."""
    memory = ReservedMemory()
    peer = make_peer(peer_name, workload, executor)
    for inputs in workload.inputs:
        peer.results(inputs)
    first = memory.peak()
    memory.restart()
    for _ in range(STEADY_CALLS):
        peer.results(workload.inputs[0])
    reserved = memory.peak()
    allocated = torch.cuda.memory_allocated()
    torch._C._cuda_clearCublasWorkspaces()  # graphs that write to them are not replayed any more
    return Memory(reserved, first, allocated - torch.cuda.memory_allocated())


def _measure_apart(job: tuple[str, str, str]) -> Memory | str:
    """Memory of a peer, or why there is none in one line."""
    name, executor, peer = job
    try:
        return measure(next(case for case in CASES if case.name == name).make(), executor, peer)
    except Exception as error:  # what was timed stands
        return f"{type(error).__name__}: {error}".splitlines()[0]


def _with_memory(row: Row, found: dict[tuple[str, str, str], Memory | str | None]) -> Row:
    key = row.case, row.executor, row.peer
    if key not in found:
        return row
    memory = found[key]
    if not isinstance(memory, Memory):
        return replace(row, remark=f"its memory could not be measured: {memory or 'its process died'}")
    return replace(row, reserved=memory.reserved, reserved_first=memory.first, workspaces=memory.workspaces)
