"""What must hold for a region to be captured or replayed with given arguments.

`describe` gives the key of an entry: everything about the arguments and the process that picks kernels or is baked into
a graph. Two calls with equal keys may share a graph. `find_refusal` names what keeps a call from being graphed at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from enum import Enum

from cgverify.plan import InputRole, Region
from cgverify.runtime.layout import ALIGNMENT, alignment, byte_range, may_overlap_itself

import torch


class Refusal(Enum):
    """Why a call runs un-graphed."""

    FIRST_CALL = "first call of this entry: it runs un-graphed and warms the kernels up"
    INSIDE_CAPTURE = "the stream is already being captured by somebody else"
    NOT_PLAIN = "an argument is not a plain strided CUDA tensor of the region's device"
    LAZY_BITS = "an argument is a lazy conjugate or negation"
    MISALIGNED = "an argument's address is no multiple of its element size"
    OVERLAP = "a written input overlaps another input, or itself"
    UNSUPPORTED_ALIAS = "a result is a view of an input under another dtype"
    CAPTURE_FAILED = "the capture failed"
    CHECK_FAILED = "the first replay differed from the un-graphed body"


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def find_refusal(region: Region, args: Sequence[torch.Tensor]) -> Refusal | None:
    """The first reason not to graph this call, None if there is none."""
    if torch.cuda.is_current_stream_capturing():
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


def describe(region: Region, args: Sequence[torch.Tensor], copied: frozenset[int]) -> Hashable:
    """The key of an entry.

    Args:
        region: the plan.
        args: one tensor per input.
        copied: positions of static inputs that are treated as copied ones, because their address did not stay.
    """
    parts: list[Hashable] = [numerics()]
    for position, (entry, arg) in enumerate(zip(region.inputs, args, strict=True)):
        in_place = entry.role is InputRole.STATIC and position not in copied
        place = arg.data_ptr() if in_place else arg.data_ptr() % ALIGNMENT
        parts.append((arg.dtype, arg.size(), arg.stride(), place))
    return tuple(parts)


def numerics() -> Hashable:
    """Process-wide switches that choose kernels: a graph keeps the choice made at its capture."""
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return (
        cuda.matmul.allow_tf32,
        cuda.matmul.allow_fp16_reduced_precision_reduction,
        cuda.matmul.allow_bf16_reduced_precision_reduction,
        cudnn.enabled,
        cudnn.benchmark,
        cudnn.deterministic,
        cudnn.allow_tf32,
        torch.are_deterministic_algorithms_enabled(),
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
    )
