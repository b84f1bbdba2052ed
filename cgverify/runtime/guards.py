"""What must hold for a region to be captured or replayed with given arguments.

`describe` gives the arguments' part of an entry's key: everything about them that picks kernels or is baked into a
graph. Two calls with equal parts may share a graph, under equal switches (`switches`). `find_refusal` names what keeps
a call from being graphed at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from enum import Enum
from typing import Any

from cgverify.plan import Region
from cgverify.runtime.layout import ALIGNMENT, alignment, byte_range, may_overlap_itself
from cgverify.runtime.optout import OPEN, is_opted_out

import torch
from torch._C._dynamo.guards import TensorGuards


class Refusal(Enum):
    """Why a call runs un-graphed."""

    FIRST_CALL = "first call of this entry, or in this thread: it runs un-graphed and warms kernels and libraries up"
    OPTED_OUT = "called inside cgverify.ungraphed()"
    INSIDE_CAPTURE = "the stream is already being captured by somebody else"
    NOT_PLAIN = "an argument is not a plain strided CUDA tensor of the region's device"
    LAZY_BITS = "an argument is a lazy conjugate or negation"
    MISALIGNED = "an argument's address is no multiple of its element size"
    OVERLAP = "a written input overlaps another input, or itself"
    LAZY_RESULT = "a result is a lazy conjugate or negation"
    UNSUPPORTED_ALIAS = "a result is a view of an input under another dtype, or of memory between inputs"
    HIDDEN_WRITE = "an op writes an input although nothing in the trace says so"
    EMPTY = "the region launches no device work for arguments of this description"
    LENT = "the replay would overwrite graph memory that somebody still holds: several forwards before a backward, say"
    CAPTURE_FAILED = "the capture failed"
    CHECK_FAILED = "the first replay differed from the un-graphed body"


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def find_refusal(region: Region, args: Sequence[torch.Tensor]) -> Refusal | None:
    """The first reason not to graph this call, None if there is none."""
    if OPEN and is_opted_out():
        return Refusal.OPTED_OUT
    if is_captured(region.device):
        return Refusal.INSIDE_CAPTURE
    for arg in args:
        if type(arg) not in _PLAIN or arg.layout is not torch.strided or str(arg.device) != region.device:
            return Refusal.NOT_PLAIN
        if arg.is_conj() or arg.is_neg():
            return Refusal.LAZY_BITS
        if alignment(arg) % min(arg.element_size(), ALIGNMENT):
            return Refusal.MISALIGNED
    if any(entry.written for entry in region.inputs) and _has_written_overlap(region, args):
        return Refusal.OVERLAP
    return None


def is_captured(device: str) -> bool:
    """Whether somebody captures the current stream of the device, or that of the current device."""
    if torch.cuda.is_current_stream_capturing():
        return True
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


def _has_written_overlap(region: Region, args: Sequence[torch.Tensor]) -> bool:
    ranges = [byte_range(arg) for arg in args]
    for position, entry in enumerate(region.inputs):
        if not entry.written:
            continue
        if may_overlap_itself(args[position].size(), args[position].stride()):
            return True
        start, end = ranges[position]
        for other, (other_start, other_end) in enumerate(ranges):
            if other != position and start < other_end and other_start < end:
                return True
    return False


def describe(args: Sequence[torch.Tensor], in_place: Collection[int]) -> tuple[Hashable, ...]:
    """The arguments' part of an entry's key.

    Of inputs that are read where they lie one tensor object twice is something else than two of them: a result that is
    an input is the caller's own object. In place of an address such a part has, below 0, where the object came first.

    Args:
        args: one tensor per input.
        in_place: positions of the inputs that are read where they lie.
    """
    parts: list[Hashable] = []
    first: dict[int, int] = {}
    for position, arg in enumerate(args):
        if position not in in_place:
            place = arg.data_ptr() % ALIGNMENT
        elif first.setdefault(id(arg), position) == position:
            place = arg.data_ptr()
        else:
            place = -1 - first[id(arg)]
        parts.append((arg.dtype, arg.size(), arg.stride(), place))
    return tuple(parts)


class EntryGuard:
    """A cheap check that a call fits the entry of an earlier one; its no is no verdict, only a reason to look closely.

    Types, dtypes, devices, sizes, strides and lazy bits of all arguments are compared in one call into torch: dynamo's
    own tensor guard. What it does not see is checked here: addresses (of inputs read in place exactly, of copied ones
    modulo the alignment) and overlap of written inputs. Addresses that passed at the last call pass again at once; when
    they have done so often enough, the guard says no, so that the entry may be captured for them.

    Args:
        region: the plan.
        args: the arguments of a call that was graphed.
        in_place: positions of the inputs that are read where they lie.
        patience: after how many calls in a row at the same addresses inputs are at rest.
    """

    def __init__(
        self, region: Region, args: Sequence[torch.Tensor], in_place: Collection[int], patience: float = math.inf
    ) -> None:
        self._patience = patience
        self._stays = 0  # how many calls in a row had the addresses of the one before
        self._masks = [-1 if k in in_place else ALIGNMENT - 1 for k in range(len(args))]
        self._passed = list(map(_address, args))
        self._places = [address & mask for address, mask in zip(self._passed, self._masks, strict=True)]
        self._layouts = _tensor_guards(args)
        self._written = [k for k, entry in enumerate(region.inputs) if entry.written]
        self._bytes = [end - start for start, end in map(byte_range, args)]

    def admits(self, args: Sequence[torch.Tensor]) -> bool:
        """Whether the arguments certainly fit."""
        if not self._layouts(*args):
            return False
        addresses = list(map(_address, args))
        if addresses == self._passed:
            self._stays += 1
            return self._stays < self._patience
        if [address & mask for address, mask in zip(addresses, self._masks)] != self._places:  # noqa: B905 (hot)
            return False
        if self._written and self._is_overlapped(addresses):
            return False
        self._passed = addresses
        self._stays = 0
        return True

    @property
    def has_rested(self) -> bool:
        """Whether `admits` says no to the addresses of the last call, because inputs have come to rest there."""
        return self._stays >= self._patience

    def is_at_rest(self, args: Sequence[torch.Tensor]) -> bool:
        """Whether `admits` said no because these arguments have come to rest."""
        return self.has_rested and self._layouts(*args) and list(map(_address, args)) == self._passed

    def wait_no_more(self) -> None:
        """Says no for no rest any more."""
        self._patience = math.inf

    def _is_overlapped(self, addresses: Sequence[int]) -> bool:
        sizes = self._bytes
        for k in self._written:
            start = addresses[k]
            end = start + sizes[k]
            for other, address in enumerate(addresses):
                if address < end and start < address + sizes[other] and other != k:
                    return True
        return False


def _tensor_guards(args: Sequence[torch.Tensor]) -> Callable[..., bool]:
    if not args:
        return lambda: True
    # sizes and strides given as numbers are compared; None would leave a dimension open
    sizes: Any = [list(arg.size()) for arg in args]
    strides: Any = [list(arg.stride()) for arg in args]
    check: Callable[..., bool] = TensorGuards(*args, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check
    return check


_address = torch.Tensor.data_ptr
