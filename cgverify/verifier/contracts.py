r"""What the runtime behind a transform does with inputs, outputs and random numbers: the premises of a proof.

A trace alone does not say whether a write inside a region reaches the caller; the runtime that replays the region
decides. `verify` takes a contract, or chooses one: `CGVERIFY` where regions carry a plan, else `THUNDER_CUDAGRAPH`
where regions have the names that Thunder's own transform gives, else `PURE_REWRITE`: nothing is captured. To describe
another runtime, write `dataclasses.replace(PURE_REWRITE, name="mine", regions=r"MyGraph\d+", ...)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# What cgverify and Thunder's own transform call the regions that they capture.
GRAPHS = r"CUDAGraph\d+"


@dataclass(frozen=True, slots=True)
class Contract:
    """A runtime's promises.

    Attributes:
        name: for reports.
        regions: pattern of the fusion symbols that are captured (whole name); None: those that carry a plan, and those
            named like them.
        writes_back: writes of a region to a copied input reach the caller.
        fresh_outputs: a region's results are in memory that no later replay overwrites.
        views_kept: a result that is a view of an input comes out as a view of the caller's tensor.
        warm_up_runs: extra executions of a region whose effects stay.
        registers_rng: replays draw new random numbers.
        guards_addresses: before a replay, the address of each input that is read in place is compared.
        guards_overlap: nothing is replayed for arguments that share memory if a region writes one of them.
        shares_pool: graphs allocate from one memory pool, and may use each other's memory again.
        trusted: names of ops whose capturability the user vouches for.
    """

    name: str
    regions: str | None = None
    writes_back: bool = True
    fresh_outputs: bool = True
    views_kept: bool = True
    warm_up_runs: int = 0
    registers_rng: bool = True
    guards_addresses: bool = True
    guards_overlap: bool = True
    shares_pool: bool = False
    trusted: frozenset[str] = frozenset()

    def captures(self, symbol: str, has_plan: bool) -> bool:
        """Whether the region with this symbol name is captured into a graph."""
        return (has_plan and self.regions is None) or re.fullmatch(self.regions or GRAPHS, symbol) is not None


CGVERIFY = Contract(name="cgverify")
# A rewrite that captures nothing: what runs is what stands in the trace.
PURE_REWRITE = Contract(name="pure rewrite", regions=r"(?!)")
# Thunder's CUDAGraphTransform: copies inputs in and never back, returns its static outputs, runs each region three
# times before it captures, restores nothing, and believes that what is marked static stays where it is. With
# `share_mem_pool=True` it is `replace(THUNDER_CUDAGRAPH, shares_pool=True)`.
THUNDER_CUDAGRAPH = Contract(
    name="Thunder's CUDAGraphTransform",
    regions=GRAPHS,
    writes_back=False,
    fresh_outputs=False,
    views_kept=False,
    warm_up_runs=3,
    guards_addresses=False,
    guards_overlap=False,
)
