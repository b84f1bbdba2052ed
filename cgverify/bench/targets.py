"""What the project sets itself, held against the rows of one run: the figure, the bound, and whether it is met.

| target | bound |
|---|---|
| computation over the floor's, where the GPU is the limit | at most 1.10 times |
| computation over the floor's, where the host is | at most 1.25 times, or at most 4 us more |
| the same for inputs that move, and so are copied | none: shown beside it |
| computation over that of Thunder's own transform, 64 inputs | at most 1 / 1.6 |
| the same, 2 inputs (Thunder's own transform neither clones nor guards) | at most 1.15 |
| a lone fused symbol | is graphed |
| whole call over that of torch.compile, executor torchcompile | none: Thunder's prologue is shown beside it |
| training: peak of reserved memory over eager's | at most 1.15 times |

Of memory, copied inputs and fresh gradients are apart; workspaces of cuBLAS count (`memory`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cgverify.bench.cases import COMPILED, TORCH
from cgverify.bench.measure import Timing
from cgverify.bench.peers import CGVERIFY, COPYING, EAGER, FLOOR, THUNDER_GRAPHS
from cgverify.bench.rows import Row, Safety

OVER_FLOOR_GPU, OVER_FLOOR_HOST, MORE_ON_HOST_US = 1.10, 1.25, 4.0
OVER_THUNDER_GRAPHS = {"chain-6x2": 1.15, "chain-20x2": 1.15, "chain-128x64": 1 / 1.6}
MEMORY_OVER_EAGER = 1.15


@dataclass(frozen=True, slots=True)
class Target:
    """One figure that the project sets itself.

    Attributes:
        what: the figure in words.
        case: where it was measured.
        executor: of Thunder.
        figure: what was found.
        bound: the most it may be; None where there is no bound.
        met: whether it is; None without a bound.
        remark: how to read it.
    """

    what: str
    case: str
    executor: str
    figure: float
    bound: float | None
    met: bool | None
    remark: str = ""


def compute_targets(rows: Sequence[Row]) -> list[Target]:
    """The targets that a run's rows bear on, kind by kind, in the order of the rows."""
    found = {(row.case, row.executor, row.peer): row for row in rows}
    ours = [row for row in rows if row.peer == CGVERIFY]
    kinds = (_over_floor, _over_thunder_graphs, _lone_fusion, _over_compile, _memory)
    return [target for kind in kinds for row in ours for target in kind(row, found)]


Found = dict[tuple[str, str, str], Row]


def _over_floor(row: Row, found: Found) -> Iterator[Target]:
    floor = _computation(found, row, FLOOR)
    if row.to_floor is None or row.computation is None or floor is None:
        return
    more = row.computation.throughput - floor.throughput
    on_host = row.limit == "host"
    bound = OVER_FLOOR_HOST if on_host else OVER_FLOOR_GPU
    met = row.to_floor <= bound or (on_host and more <= MORE_ON_HOST_US)
    remark = f"{row.limit}-limited, {more:+.1f} us"
    yield Target("computation over the floor", row.case, row.executor, row.to_floor, bound, met, remark)
    copying = found.get((row.case, row.executor, COPYING))
    if copying is not None and copying.to_floor is not None and copying.computation is not None:
        more = copying.computation.throughput - floor.throughput
        remark = f"{more:+.1f} us"
        if copying.safety is not None:
            safety = copying.safety.region.throughput - copying.safety.bare.throughput
            remark += f": {safety:+.1f} in regions, {more - safety:+.1f} in Thunder's function around them"
        yield Target("the same, inputs that move", row.case, row.executor, copying.to_floor, None, None, remark)


def _over_thunder_graphs(row: Row, found: Found) -> Iterator[Target]:
    bound, figure = OVER_THUNDER_GRAPHS.get(row.case), row.to_thunder_graphs
    if bound is None or row.executor != TORCH or figure is None:
        return
    remark = ""
    safety = _safety(row, found)
    if safety is not None:
        cost = safety.region.throughput - safety.bare.throughput
        remark = f"safety costs {cost:+.1f} us where inputs move"
    what = "computation over Thunder's own graphs"
    yield Target(what, row.case, row.executor, figure, bound, figure <= bound, remark)


def _lone_fusion(row: Row, found: Found) -> Iterator[Target]:
    """A chain is one fused symbol to the executor torchcompile."""
    if row.executor != COMPILED or not row.case.startswith("chain") or row.computation is None:
        return
    safety = _safety(row, found)
    regions = 0 if safety is None else safety.regions
    yield Target("graphs for the lone fused symbol", row.case, row.executor, regions, 1, regions == 1)


def _over_compile(row: Row, found: Found) -> Iterator[Target]:
    if row.executor != COMPILED or row.whole_to_compile is None:
        return
    remark = ""
    if row.whole is not None and row.prologue is not None and row.computation is not None:
        remark = f"{row.whole.throughput:.0f} us, of it {row.prologue.throughput:.0f} us Thunder's prologue"
        remark += f", {row.computation.throughput:.0f} us computation"
    what = "whole call over torch.compile's"
    yield Target(what, row.case, row.executor, row.whole_to_compile, None, None, remark)


def _memory(row: Row, found: Found) -> Iterator[Target]:
    eager = found.get((row.case, "", EAGER))
    if row.fresh_bytes is None or eager is None or row.reserved is None or not eager.reserved:
        return
    figure = (row.reserved - row.fresh_bytes) / eager.reserved
    met = figure <= MEMORY_OVER_EAGER
    others = [found.get((row.case, row.executor, peer)) for peer in ("thunder", THUNDER_GRAPHS)]
    listed = ", ".join(_describe_memory(peer) for peer in (row, eager, *others) if peer is not None)
    remark = f"{listed}; {row.fresh_bytes / 2**20:.0f} MiB of inputs and gradients apart"
    yield Target("training memory over eager's", row.case, row.executor, figure, MEMORY_OVER_EAGER, met, remark)


def _describe_memory(row: Row) -> str:
    if row.reserved is None:
        return f"{row.peer} unknown"
    return f"{row.peer} {row.reserved / 2**20:.0f} MiB, {(row.workspaces or 0) / 2**20:.0f} of it workspaces"


def _safety(row: Row, found: Found) -> Safety | None:
    """What safety costs, from the row of the peer that copies its inputs as the raw graphs do."""
    copying = found.get((row.case, row.executor, COPYING))
    return row.safety if copying is None else copying.safety


def _computation(found: Found, row: Row, peer: str) -> Timing | None:
    other = found.get((row.case, row.executor, peer))
    return None if other is None else other.computation
