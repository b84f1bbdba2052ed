"""What each result of a captured body is to the caller, and the graph memory behind it; it shows from addresses.

A result that lies in the memory of an input becomes the caller's own tensor or a view of it. One that the caller never
gets, and that lies alone in its storage, is kept in graph memory and lent. Everything else is copied to fresh memory on
each call, results that share memory together, so that they share memory again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from cgverify.runtime.guards import Refusal
from cgverify.runtime.layout import ALIGNMENT, byte_range, may_overlap_itself, span, storage_address

import torch

Result = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], torch.Tensor]
"""Makes one result from the call's arguments and the tensors made for the call."""

View = Callable[[torch.Tensor, torch.Size, tuple[int, ...], int], torch.Tensor]
"""Makes a view from a base, a size, strides and an offset in elements."""


class CaptureRefusedError(Exception):
    """The captured body cannot be served by a graph.

    Attributes:
        refusal: why.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Block:
    """Graph memory that several results share, copied out as bytes so that they share memory again.

    Attributes:
        source: flat uint8 view of the graph's memory.
        room: bytes to allocate: the source's, rounded up so that every dtype can view them.
    """

    source: torch.Tensor
    room: int


@dataclass(frozen=True, slots=True)
class Results:
    """How the results of a replay come to be. The tensors made for a call are those of `fresh`, `blocks`, `kept`.

    Attributes:
        fresh: graph memory of results to copy, each alone in its storage.
        blocks: graph memory that several results share, to copy.
        kept: results that stay in graph memory, each alone in its storage.
        makers: one per distinct result.
        order: for each result the position of its maker: a body may return one tensor under two names, and the caller
            then gets one tensor under two names.
    """

    fresh: list[torch.Tensor]
    blocks: list[Block]
    kept: list[torch.Tensor]
    makers: list[Result]
    order: list[int]

    @property
    def is_all_fresh(self) -> bool:
        """Whether the copies of `fresh` are the results, in order."""
        return len(self.fresh) == len(self.makers) == len(self.order)


def plan_results(buffers: Sequence[torch.Tensor], results: Sequence[torch.Tensor], lent: Collection[int]) -> Results:
    """Sorts the results of a capture.

    Args:
        buffers: what the body was captured on.
        results: what it returned.
        lent: positions of results that may stay in graph memory.

    Raises:
        CaptureRefusedError: a result is a lazy conjugate or negation, or a view of an input under another dtype.
    """
    distinct = list({id(result): result for result in results}.values())
    positions = {id(result): k for k, result in enumerate(distinct)}
    order = [positions[id(result)] for result in results]
    may_stay = {k for k in range(len(distinct)) if all(p in lent for p, made in enumerate(order) if made == k)}
    makers: dict[int, Result] = {}
    groups: dict[int, list[int]] = {}
    for k, result in enumerate(tuple(distinct)):
        maker = _alias_of_input(result, buffers)
        if maker is not None:
            makers[k] = maker
        elif result.numel():
            groups.setdefault(storage_address(result), []).append(k)
        else:
            # other tensors without elements share no memory: each is a group of its own, on no argument's storage
            groups[-1 - k] = [k]
            distinct[k] = torch.empty_strided(result.size(), result.stride(), dtype=result.dtype, device=result.device)
    kept = [k for address, (k, *others) in groups.items() if address > 0 and not others and k in may_stay]
    owners: list[torch.Tensor] = []
    shared: list[list[int]] = []
    for members in groups.values():
        if members[0] in kept:
            continue
        owner = _owner_of([distinct[k] for k in members])
        if owner is None:
            shared.append(members)
            continue
        for k in members:
            is_owner = distinct[k] is owner
            makers[k] = _nth_fresh(len(owners)) if is_owner else _view_of_fresh(len(owners), distinct[k], owner)
        owners.append(owner)
    blocks: list[Block] = []
    for position, members in enumerate(shared, len(owners)):
        start, block = _block_of([distinct[k] for k in members])
        makers.update({k: _view_of_block(position, distinct[k], start) for k in members})
        blocks.append(block)
    makers.update({k: _nth_fresh(position) for position, k in enumerate(kept, len(owners) + len(blocks))})
    return Results(owners, blocks, [distinct[k] for k in kept], [makers[k] for k in range(len(distinct))], order)


def _alias_of_input(result: torch.Tensor, buffers: Sequence[torch.Tensor]) -> Result | None:
    for k, buffer in enumerate(buffers):
        if result is buffer:
            return _nth_argument(k)
    if not result.numel():
        return _view_without_elements(result, buffers)
    if result.is_conj() or result.is_neg():
        raise CaptureRefusedError(Refusal.LAZY_RESULT)
    address, (start, end) = storage_address(result), byte_range(result)
    sharing = [k for k, buffer in enumerate(buffers) if buffer.numel() and storage_address(buffer) == address]
    if not sharing:
        return None
    fitting = [k for k in sharing if buffers[k].dtype is result.dtype]
    if len(sharing) > 1:
        # inputs of one storage may lie at the same addresses in storages of their own in another call
        ranges = {k: byte_range(buffers[k]) for k in fitting}
        fitting = [k for k, (first, last) in ranges.items() if first <= start and end <= last]
    if not fitting:
        raise CaptureRefusedError(Refusal.UNSUPPORTED_ALIAS)
    k = fitting[0]
    return _view_of_argument(k, result, buffers[k])


def _view_without_elements(result: torch.Tensor, buffers: Sequence[torch.Tensor]) -> Result | None:
    """What makes a result that lies nowhere: autograd alone knows whose view it is, and whether it takes a gradient."""
    for k, buffer in enumerate(buffers):
        if result.dtype is buffer.dtype and _is_tracked_view(result, buffer):
            return _view_of_argument(k, result, buffer)
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


def _block_of(members: Sequence[torch.Tensor]) -> tuple[int, Block]:
    """Start address (a multiple of `ALIGNMENT`) and block of the bytes that `members`, all of one storage, touch."""
    start = min(t.data_ptr() for t in members) // ALIGNMENT * ALIGNMENT
    end = max(t.data_ptr() + span(t.size(), t.stride()) * t.element_size() for t in members)
    storage = members[0].untyped_storage()
    raw = torch.empty(0, dtype=torch.uint8, device=members[0].device)
    raw.set_(storage, start - storage.data_ptr(), (end - start,), (1,))
    return start, Block(raw, -(-(end - start) // ALIGNMENT) * ALIGNMENT)


def _nth_argument(position: int) -> Result:
    return lambda args, fresh: args[position]


def _nth_fresh(position: int) -> Result:
    return lambda args, fresh: fresh[position]


def _view_of_argument(position: int, result: torch.Tensor, buffer: torch.Tensor) -> Result:
    size, stride = result.size(), result.stride()
    delta = int(result.storage_offset()) - int(buffer.storage_offset())
    as_seen = _seen_by_autograd(result, buffer)

    def make(args: Sequence[torch.Tensor], fresh: Sequence[torch.Tensor]) -> torch.Tensor:
        argument = args[position]
        return as_seen(argument, size, stride, int(argument.storage_offset()) + delta)

    return make


def _view_of_fresh(position: int, result: torch.Tensor, owner: torch.Tensor) -> Result:
    size, stride = result.size(), result.stride()
    offset = (result.data_ptr() - owner.data_ptr()) // owner.element_size()
    as_seen = _seen_by_autograd(result, owner)
    return lambda args, fresh: as_seen(fresh[position], size, stride, offset)


def _view_of_block(position: int, result: torch.Tensor, start: int) -> Result:
    size, stride, dtype = result.size(), result.stride(), result.dtype
    offset = (result.data_ptr() - start) // result.element_size()
    view = torch.as_strided if result._is_view() else _detached

    def make(args: Sequence[torch.Tensor], fresh: Sequence[torch.Tensor]) -> torch.Tensor:
        return view(fresh[position].view(dtype), size, stride, offset)

    return make


def _seen_by_autograd(result: torch.Tensor, base: torch.Tensor) -> View:
    """How to make a view that is to autograd what `result` is: a view of `base`, a detached one, or one of such a one.

    A view of a tensor that requires a gradient requires one, even if it is made without gradients; `detach`, and what
    is a view of its result, does not.
    """
    if not result._is_view():
        return _detached
    return torch.as_strided if _is_tracked_view(result, base) else _of_detached


def _is_tracked_view(result: torch.Tensor, base: torch.Tensor) -> bool:
    """Whether autograd sees `result` as a view of `base`, or of what `base` is a view of."""
    return result._is_view() and result._base is (base._base if base._is_view() else base)


def _detached(base: torch.Tensor, size: torch.Size, stride: tuple[int, ...], offset: int) -> torch.Tensor:
    return base.as_strided(size, stride, offset).detach()


def _of_detached(base: torch.Tensor, size: torch.Size, stride: tuple[int, ...], offset: int) -> torch.Tensor:
    return base.detach().as_strided(size, stride, offset)
