"""One captured graph: its static buffers, and the three steps of a call: copy in, replay, copy out.

What a result is to the caller shows at capture, from addresses: a result that lies in the memory of an input becomes
the caller's own tensor or a view of it; everything else lies in the graph's memory and is copied to fresh memory on
each call, results that share memory together, so that they share memory again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cgverify.plan import InputRole, Region
from cgverify.runtime.guards import Refusal
from cgverify.runtime.layout import (
    ALIGNMENT,
    as_bits,
    byte_range,
    copyable,
    may_overlap_itself,
    span,
    storage_address,
)
from cgverify.runtime.pool import LOCK, Pool

import torch

FEW = 2
"""Up to how many results single clones are cheaper than allocating and one grouped copy."""

Body = Callable[..., Sequence[torch.Tensor]]
Result = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], torch.Tensor]
"""Makes one result from the call's arguments and the fresh tensors of the call."""


class CaptureRefusedError(Exception):
    """The captured body cannot be served by a graph.

    Attributes:
        refusal: why.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class _Block:
    """Graph memory that several results share, copied out as bytes so that they share memory again."""

    source: torch.Tensor  # flat uint8 view of the graph's memory
    room: int  # bytes to allocate: the source's, rounded up so that every dtype can view them


class CapturedGraph:
    """A graph for one entry of one region.

    Args:
        region: the plan.
        body: what to capture; called once, on static buffers.
        args: the call's arguments: they give sizes, strides, alignments, and the addresses of static inputs.
        copied: positions of static inputs that are copied because their address did not stay.
        pool: where the graph's memory comes from.

    Raises:
        CaptureRefusedError: a result aliases an input in a way that no view can reproduce, or an op wrote an input
            unannounced.
        Exception: whatever the capture raised.
    """

    def __init__(
        self, region: Region, body: Body, args: Sequence[torch.Tensor], copied: frozenset[int], pool: Pool
    ) -> None:
        self.device = pool.device
        self._pool = pool
        allocated = torch.cuda.memory_allocated(self.device)
        in_place = [entry.role is InputRole.STATIC and k not in copied for k, entry in enumerate(region.inputs)]
        self._copied = [k for k, stays in enumerate(in_place) if not stays and args[k].numel()]
        self._written_back = [k for k in self._copied if region.inputs[k].written]
        self._written_in_place = [k for k, stays in enumerate(in_place) if stays and region.inputs[k].written]
        standing_in = iter(pool.buffers_like([arg for stays, arg in zip(in_place, args, strict=True) if not stays]))
        buffers = [arg if stays else next(standing_in) for stays, arg in zip(in_place, args, strict=True)]
        self._sinks = [as_bits(copyable(buffers[k])) for k in self._copied]
        self._recast = [sink is not buffers[k] for k, sink in zip(self._copied, self._sinks, strict=True)]
        self._buffers = {k: buffers[k] for k in self._copied}
        versions = [_version(buffer) for buffer in buffers]
        graph, results = pool.capture(body, buffers)
        self._graph: torch.cuda.CUDAGraph | None = graph
        for entry, buffer, version in zip(region.inputs, buffers, versions, strict=True):
            if _version(buffer) != version and not entry.written:
                raise CaptureRefusedError(Refusal.HIDDEN_WRITE)
        self._fresh: list[torch.Tensor] = []  # results in graph memory, each alone in its storage
        self._blocks: list[_Block] = []
        # a body may return one tensor under two names; the caller then gets one tensor under two names
        distinct = list({id(result): result for result in results}.values())
        positions = {id(result): k for k, result in enumerate(distinct)}
        self._order = [positions[id(result)] for result in results]
        self._results: list[Result] = self._plan_results(buffers, distinct)
        has_effects = region.random or any(entry.written for entry in region.inputs)
        self._clones = not has_effects and not self._blocks and len(self._fresh) <= FEW
        self._all_fresh = len(self._fresh) == len(distinct) == len(results)
        self.bytes_held = max(0, torch.cuda.memory_allocated(self.device) - allocated)

    def replay(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """One call: the region's results for `args`, in memory of the caller's own.

        The caller holds the runtime's lock, so the three steps are enqueued together; another stream's call first waits
        for the last one to finish.
        """
        if self._graph is None:
            raise RuntimeError("this graph was closed: drop the jitted function or keep its transform alive")
        # memory for the results comes first where the replay has effects: getting it may fail, and undoes nothing
        fresh = None if self._clones else self._allocate()
        self._pool.turn.take()
        if self._copied:
            torch._foreach_copy_(self._sinks, self._sources(args))
        self._graph.replay()
        if self._written_back:
            torch._foreach_copy_(
                [as_bits(args[k]) for k in self._written_back], [as_bits(self._buffers[k]) for k in self._written_back]
            )
        for k in self._written_in_place:
            if not args[k].is_inference():
                torch.autograd.graph.increment_version(args[k])  # the replay wrote it unseen by autograd
        if fresh is None:
            fresh = [t.clone() for t in self._fresh]
        else:
            self._copy_out(fresh)
        if self._all_fresh:
            return fresh
        made = [make(args, fresh) for make in self._results]
        return [made[k] for k in self._order]

    @property
    def copies(self) -> int:
        """Tensors copied per call, in, back and out."""
        return len(self._copied) + len(self._written_back) + len(self._fresh) + len(self._blocks)

    def close(self) -> None:
        """Waits for the last replay, then gives the graph's memory back.

        While somebody captures on this thread's stream neither is allowed: the memory then goes back with the next
        graph that is closed or captured.
        """
        with LOCK:
            graph, self._graph = self._graph, None
            if graph is not None:
                self._pool.dispose(graph)
            self._sinks, self._fresh, self._blocks, self._results, self._buffers = [], [], [], [], {}

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # bound early: at interpreter exit this module's globals are gone before its last graph
        if getattr(self, "_graph", None) is not None and not is_finalizing():
            self.close()

    def _sources(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [
            as_bits(copyable(args[k])) if recast else args[k]
            for k, recast in zip(self._copied, self._recast, strict=True)
        ]

    def _allocate(self) -> list[torch.Tensor]:
        """Fresh memory for `_fresh`, then fresh bytes for `_blocks`."""
        # not empty_like: it does not keep the strides of every dense layout
        fresh = [torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=self.device) for t in self._fresh]
        rooms = [torch.empty(block.room, dtype=torch.uint8, device=self.device) for block in self._blocks]
        return fresh + rooms

    def _copy_out(self, fresh: list[torch.Tensor]) -> None:
        """Copies the graph's results into what `_allocate` gave."""
        if not fresh:
            return
        sinks = list(map(as_bits, fresh[: len(self._fresh)]))
        sinks += [room[: block.source.numel()] for room, block in zip(fresh[len(sinks) :], self._blocks, strict=True)]
        torch._foreach_copy_(sinks, [*map(as_bits, self._fresh), *(block.source for block in self._blocks)])

    def _plan_results(self, buffers: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> list[Result]:
        makers: list[Result | None] = [_alias_of_input(result, buffers) for result in results]
        groups: dict[int, list[int]] = {}
        for k, maker in enumerate(makers):
            if maker is None:
                # tensors without memory share none: each is a group of its own
                address = storage_address(results[k]) if results[k].numel() else -1 - k
                groups.setdefault(address, []).append(k)
        shared: list[list[int]] = []
        for members in groups.values():
            owner = _owner_of([results[k] for k in members])
            if owner is None:
                shared.append(members)
                continue
            position = len(self._fresh)
            self._fresh.append(owner)
            for k in members:
                views = results[k] is not owner
                makers[k] = _view_of_fresh(position, results[k], owner) if views else _nth_fresh(position)
        for members in shared:
            start, block = _block_of([results[k] for k in members])
            position = len(self._fresh) + len(self._blocks)
            self._blocks.append(block)
            for k in members:
                makers[k] = _view_of_block(position, results[k], start)
        return [maker for maker in makers if maker is not None]


def _version(tensor: torch.Tensor) -> int:
    """How often the tensor was written; inference tensors do not count, and here only the caller's can be some."""
    return 0 if tensor.is_inference() else tensor._version


def _alias_of_input(result: torch.Tensor, buffers: Sequence[torch.Tensor]) -> Result | None:
    for k, buffer in enumerate(buffers):
        if result is buffer:
            return _nth_argument(k)
    if not result.numel():
        return None
    address = storage_address(result)
    for k, buffer in enumerate(buffers):
        if buffer.numel() and storage_address(buffer) == address:
            if result.dtype is not buffer.dtype or result.is_conj() or result.is_neg():
                raise CaptureRefusedError(Refusal.UNSUPPORTED_ALIAS)
            return _view_of_argument(k, result, (result.data_ptr() - buffer.data_ptr()) // buffer.element_size())
    if result.is_conj() or result.is_neg():
        raise CaptureRefusedError(Refusal.UNSUPPORTED_ALIAS)
    return None


def _owner_of(members: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The member of which all others are views, so that a copy of it alone serves them all; None if there is none.

    Autograd tells views from owners (it refuses some in-place ops on views), so an owner has to stay one.
    """
    for candidate in members:
        if len(members) > 1 and candidate._is_view():
            continue
        size, stride = candidate.size(), candidate.stride()
        if span(size, stride) != candidate.numel() or may_overlap_itself(size, stride):
            continue
        start, end = byte_range(candidate)
        ranges = map(byte_range, members)
        if all(start <= first and last <= end for first, last in ranges) and len({t.dtype for t in members}) == 1:
            return candidate
    return None


def _block_of(members: Sequence[torch.Tensor]) -> tuple[int, _Block]:
    """Start address (a multiple of `ALIGNMENT`) and block of the bytes that `members`, all of one storage, touch."""
    start = min(t.data_ptr() for t in members) // ALIGNMENT * ALIGNMENT
    end = max(t.data_ptr() + span(t.size(), t.stride()) * t.element_size() for t in members)
    storage = members[0].untyped_storage()
    raw = torch.empty(0, dtype=torch.uint8, device=members[0].device)
    raw.set_(storage, start - storage.data_ptr(), (end - start,), (1,))
    return start, _Block(raw, -(-(end - start) // ALIGNMENT) * ALIGNMENT)


def _nth_argument(position: int) -> Result:
    return lambda args, fresh: args[position]


def _nth_fresh(position: int) -> Result:
    return lambda args, fresh: fresh[position]


def _view_of_argument(position: int, result: torch.Tensor, delta: int) -> Result:
    size, stride = result.size(), result.stride()

    def make(args: Sequence[torch.Tensor], fresh: Sequence[torch.Tensor]) -> torch.Tensor:
        argument = args[position]
        return argument.as_strided(size, stride, argument.storage_offset() + delta)

    return make


def _view_of_fresh(position: int, result: torch.Tensor, owner: torch.Tensor) -> Result:
    size, stride = result.size(), result.stride()
    offset = (result.data_ptr() - owner.data_ptr()) // owner.element_size()
    return lambda args, fresh: fresh[position].as_strided(size, stride, offset)


def _view_of_block(position: int, result: torch.Tensor, start: int) -> Result:
    size, stride, dtype = result.size(), result.stride(), result.dtype
    offset = (result.data_ptr() - start) // result.element_size()

    def make(args: Sequence[torch.Tensor], fresh: Sequence[torch.Tensor]) -> torch.Tensor:
        return fresh[position].view(dtype).as_strided(size, stride, offset)

    return make
