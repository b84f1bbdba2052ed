"""What a run found: one row for each peer, executor and case, and the ratios between the rows of a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cgverify.bench.measure import Timing
from cgverify.bench.peers import COMPILE, EAGER, FLOOR, THUNDER_GRAPHS

OK, WRONG, FAILED, LEFT_OUT = "ok", "wrong", "failed", "left out"

NO_EXECUTOR = ""

HOST_SHARE = 0.75
"""A case counts as limited by the host if enqueuing the floor takes at least this share of its time per call."""


@dataclass(frozen=True, slots=True)
class Safety:
    """What safety costs: cgverify's regions against raw graphs of the same bodies with the same inputs copied.

    Attributes:
        regions: region calls in one computation, forward and backward.
        region: all of them.
        bare: the raw graphs of all of them.
    """

    regions: int
    region: Timing
    bare: Timing


@dataclass(frozen=True, slots=True)
class Row:
    """One peer on one case with one executor.

    Attributes:
        case: its name.
        executor: Thunder's; empty for eager and torch.compile, which have none.
        peer: one of `peers.PEERS`.
        status: `ok`, `wrong` (differs from eager), `failed` (raised) or `left out`.
        remark: in one line why the status is not `ok`, or what could not be measured.
        whole: a whole call.
        computation: a call without Thunder's prologue and autograd's glue.
        prologue: for Thunder's peers, the look-up of the compiled function and the check of its arguments, alone.
        first_ms: milliseconds of the first call, compiling included.
        ready_ms: milliseconds of the first calls together, one for each of `cases.SEEDS`, captures included.
        reserved: in training on a GPU, the peak of reserved bytes in later calls, after `empty_cache`, above inputs and
            parameters, in a process of its own.
        reserved_first: the same in the first calls.
        workspaces: bytes of cuBLAS workspaces within both.
        safety: for cgverify where it copies inputs, as the raw graphs do: in training, and as `cgverify-copying`.
        fresh_bytes: for cgverify in training, the bytes of copied inputs and of the gradients that a step returns.
        to_floor: throughput time of the computation (of eager's whole call) over the floor's.
        to_thunder_graphs: the same over that of Thunder's own transform.
        whole_to_thunder_graphs: throughput time of the whole call over that of Thunder's own transform.
        whole_to_compile: the same over that of torch.compile(mode="reduce-overhead").
        limit: `host` or `GPU`: what limits the floor.
    """

    case: str
    executor: str
    peer: str
    status: str = OK
    remark: str = ""
    whole: Timing | None = None
    computation: Timing | None = None
    prologue: Timing | None = None
    first_ms: float | None = None
    ready_ms: float | None = None
    reserved: int | None = None
    reserved_first: int | None = None
    workspaces: int | None = None
    safety: Safety | None = None
    fresh_bytes: int | None = None
    to_floor: float | None = None
    to_thunder_graphs: float | None = None
    whole_to_thunder_graphs: float | None = None
    whole_to_compile: float | None = None
    limit: str | None = None


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """The rows of one case with the columns that compare them filled in; eager is held against the first floor."""
    found = {(row.peer, row.executor): row for row in rows}
    first = next((row.executor for row in rows if row.executor != NO_EXECUTOR), NO_EXECUTOR)
    compiled = _whole(found.get((COMPILE, NO_EXECUTOR)))
    compared = []
    for row in rows:
        executor = first if row.peer == EAGER else row.executor
        floor, graphs = found.get((FLOOR, executor)), found.get((THUNDER_GRAPHS, executor))
        inner = row.whole if row.peer == EAGER else row.computation
        compared.append(
            replace(
                row,
                to_floor=_ratio(inner, _computation(floor)),
                to_thunder_graphs=_ratio(inner, _computation(graphs)),
                whole_to_thunder_graphs=_ratio(row.whole, _whole(graphs)),
                whole_to_compile=_ratio(row.whole, compiled),
                limit=_limit(_computation(floor)),
            )
        )
    return compared


def _whole(row: Row | None) -> Timing | None:
    return None if row is None else row.whole


def _computation(row: Row | None) -> Timing | None:
    return None if row is None else row.computation


def _ratio(one: Timing | None, other: Timing | None) -> float | None:
    return None if one is None or other is None else one.throughput / other.throughput


def _limit(floor: Timing | None) -> str | None:
    if floor is None:
        return None
    return "host" if floor.host >= HOST_SHARE * floor.throughput else "GPU"
