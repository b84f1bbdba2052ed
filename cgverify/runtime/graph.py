"""One captured graph: its static buffers, and the three steps of a call: copy in, replay, copy out.

What is copied out, what is lent and what is a view of an argument shows at capture: `results`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial

from cgverify.plan import OutputRole, Region
from cgverify.runtime.body import Body
from cgverify.runtime.guards import Refusal
from cgverify.runtime.layout import as_bits, copyable, storage_address
from cgverify.runtime.leases import Lender, find_blocker
from cgverify.runtime.pool import LOCK, Pool
from cgverify.runtime.results import CaptureRefusedError, plan_results

import torch

FEW = 2
"""Up to how many results single clones are cheaper than allocating and one grouped copy."""


class CapturedGraph:
    """A graph for one entry of one region.

    Args:
        region: the plan.
        body: what to capture; called once, on static buffers.
        args: the call's arguments: they give sizes, strides, alignments, and the addresses of inputs read in place.
        in_place: positions of the inputs that are read where they lie.
        pool: where the graph's memory comes from.
        lender: lends the results that stay in graph memory, if the region may lend.

    Raises:
        CaptureRefusedError: a result is a lazy conjugate or negation, or a view of an input under another dtype, or an
            op wrote an input unannounced.
        Exception: whatever the capture raised.
    """

    def __init__(
        self,
        region: Region,
        body: Body,
        args: Sequence[torch.Tensor],
        in_place: Collection[int],
        pool: Pool,
        lender: Lender,
    ) -> None:
        self.device = pool.device
        self.lenders = pool.lenders
        self._pool = pool
        self._lender = lender
        allocated = torch.cuda.memory_allocated(self.device)
        stays = [k in in_place for k in range(len(args))]
        self._copied = [k for k, arg in enumerate(args) if not stays[k] and arg.numel()]
        self._written_back = [k for k in self._copied if region.inputs[k].written]
        standing_in = iter(pool.buffers_like([arg for k, arg in enumerate(args) if not stays[k]]))
        buffers = [arg if stays[k] else next(standing_in) for k, arg in enumerate(args)]
        self._sinks = [as_bits(copyable(buffers[k])) for k in self._copied]
        self._recast = [sink is not buffers[k] for k, sink in zip(self._copied, self._sinks, strict=True)]
        self._is_recast = any(self._recast)
        self._takes_all = len(self._copied) == len(args) and not self._is_recast
        self._buffers = {k: buffers[k] for k in self._copied}
        versions = [_version(buffer) for buffer in buffers]
        held = torch.cuda.memory_allocated(self.device) - allocated
        graph, results, kept = pool.capture(body, buffers, region.needs)
        self._graph: torch.cuda.CUDAGraph | None = graph
        # the writes that autograd sees; a plan may call more inputs written than are
        changed = [k for k, version in enumerate(versions) if _version(buffers[k]) != version]
        self._seen_written = [k for k in changed if region.inputs[k].written]
        announced = {storage_address(buffers[k]) for k in self._seen_written}  # views of one tensor count together
        if not all(storage_address(buffers[k]) in announced for k in changed):
            raise CaptureRefusedError(Refusal.HIDDEN_WRITE)
        may_stay = [k for k, output in enumerate(region.outputs) if output.role is OutputRole.LENT]
        plan = plan_results(buffers, results, may_stay if lender.lending.allowed else ())
        del results  # a view among them owns its storage twice
        self._fresh, self._blocks = plan.fresh, plan.blocks
        self._sources_out = [*map(as_bits, plan.fresh), *(block.source for block in plan.blocks)]
        # not empty_like: it does not keep the strides of every dense layout
        self._allocators = [
            partial(torch.empty_strided, t.size(), t.stride(), dtype=t.dtype, device=self.device) for t in plan.fresh
        ] + [partial(torch.empty, block.room, dtype=torch.uint8, device=self.device) for block in plan.blocks]
        self._makers, self._order = plan.makers, plan.order
        self._all_fresh = plan.is_all_fresh
        self._serial = pool.serial
        if plan.kept:
            pool.lend(lender, [tensor.detach() for tensor in plan.kept])
        has_effects = region.random or any(entry.written for entry in region.inputs)
        self._clones = not has_effects and not self._blocks and len(self._fresh) <= FEW
        self.used = 0
        self.is_open = True
        self.copies = len(self._copied) + len(self._written_back) + len(self._sources_out)
        self.leases = len(lender.kept)
        self.bytes_held = max(0, held) + kept

    def find_blocker(self) -> Lender | None:
        """Whose leases a replay would overwrite, None if nobody's; empty `lenders` answer that at once."""
        return find_blocker(self.lenders, self._serial)

    def is_lent_by(self, lender: Lender) -> bool:
        """Whether the lender's leases are this graph's own results."""
        return lender is self._lender

    def replay(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """One call: the region's results for `args`, in memory of the caller's own, or lent.

        The caller holds the runtime's lock, so the three steps are enqueued together; another stream's call first waits
        for the last one to finish.
        """
        if self._graph is None:
            raise RuntimeError("this graph was closed: a replay is for the cache's graphs alone")
        # memory for the results comes first where the replay has effects: getting it may fail, and undoes nothing
        fresh = None if self._clones else self._allocate()
        self._pool.take_turn()
        if self._copied:
            torch._foreach_copy_(self._sinks, tuple(args) if self._takes_all else self._sources(args))
        self._graph.replay()
        if self._written_back:
            torch._foreach_copy_(
                [as_bits(args[k]) for k in self._written_back], [as_bits(self._buffers[k]) for k in self._written_back]
            )
        for k in self._seen_written:
            if not args[k].is_inference():
                torch.autograd.graph.increment_version(args[k])  # neither replay nor grouped copy tells autograd
        if fresh is None:
            fresh = [t.clone() for t in self._fresh]
        else:
            self._copy_out(fresh)
        if self._all_fresh:
            return fresh
        if self._lender.kept:
            self._pool.note_reader()
            fresh += self._lender.lend()
        made = [make(args, fresh) for make in self._makers]
        return [made[k] for k in self._order]

    def close(self) -> None:
        """Waits for the last replay, then gives the graph's memory back, but for what is lent.

        While somebody captures on this thread's stream neither is allowed: the memory then goes back with the next
        graph that is closed or captured.
        """
        with LOCK:
            graph, self._graph, self.is_open = self._graph, None, False
            if graph is not None:
                self._lender.close()
                self._pool.dispose(graph)
            self._sinks, self._fresh, self._blocks, self._sources_out = [], [], [], []
            self._makers, self._allocators, self._buffers = [], [], {}

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # bound early: at interpreter exit this module's globals are gone before its last graph
        if getattr(self, "_graph", None) is not None and not is_finalizing():
            self.close()

    def _sources(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The arguments to copy, as `_sinks` takes them."""
        if not self._is_recast:
            return [args[k] for k in self._copied]
        return [
            as_bits(copyable(args[k])) if recast else args[k]
            for k, recast in zip(self._copied, self._recast, strict=True)
        ]

    def _allocate(self) -> list[torch.Tensor]:
        """Fresh memory for `_fresh`, then fresh bytes for `_blocks`."""
        return [allocate() for allocate in self._allocators]

    def _copy_out(self, fresh: list[torch.Tensor]) -> None:
        """Copies the graph's results into what `_allocate` gave."""
        if not fresh:
            return
        sinks = list(map(as_bits, fresh[: len(self._fresh)]))
        sinks += [room[: block.source.numel()] for room, block in zip(fresh[len(sinks) :], self._blocks, strict=True)]
        torch._foreach_copy_(sinks, self._sources_out)


def _version(tensor: torch.Tensor) -> int:
    """How often the tensor was written; inference tensors do not count, and here only the caller's can be some."""
    return 0 if tensor.is_inference() else tensor._version
