"""`check="first"`: one replay against the un-graphed body on copies of the same arguments, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cgverify.plan import Region
from cgverify.runtime.layout import buffer_like, copyable

import torch


@dataclass(frozen=True, slots=True)
class Expected:
    """What the un-graphed body makes of copies of a call's arguments.

    Attributes:
        args: the copies, afterwards.
        results: the body's results.
        state: the generator's state afterwards.
    """

    args: list[torch.Tensor]
    results: list[torch.Tensor]
    state: torch.Tensor


def run_on_copies(
    region: Region, body: Callable[..., Sequence[torch.Tensor]], args: Sequence[torch.Tensor]
) -> Expected:
    """Runs the body on copies; arguments and generator stay as they are, whether it raises or not."""
    device = torch.device(region.device)
    copies = [_copy(arg) for arg in args]
    state = torch.cuda.get_rng_state(device)
    try:
        results = list(body(*copies))
        return Expected(copies, results, torch.cuda.get_rng_state(device))
    finally:
        torch.cuda.set_rng_state(state, device)


def put_right(
    region: Region, args: Sequence[torch.Tensor], results: Sequence[torch.Tensor], expected: Expected
) -> str | None:
    """What differs from the expected outcome after a replay, None for nothing.

    On a difference the results, the written arguments and the generator become the expected ones.
    """
    device = torch.device(region.device)
    difference = _difference(region, args, expected.args, results, expected.results)
    if difference is None and not torch.equal(torch.cuda.get_rng_state(device), expected.state):
        difference = "the generator's position"
    if difference is None:
        return None
    for entry, arg, copy in zip(region.inputs, args, expected.args, strict=True):
        if entry.written:
            copyable(arg).copy_(copyable(copy))
    for result, value in zip(results, expected.results, strict=True):
        copyable(result).copy_(copyable(value))
    torch.cuda.set_rng_state(expected.state, device)
    return difference


def _difference(
    region: Region,
    args: Sequence[torch.Tensor],
    copies: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
) -> str | None:
    for entry, arg, copy in zip(region.inputs, args, copies, strict=True):
        if not _same_bits(arg, copy):
            return f"input `{entry.name}` after the call"
    for output, result, value in zip(region.outputs, results, expected, strict=True):
        if not _same_bits(result, value):
            return f"result `{output.name}`"
    return None


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    copy = buffer_like(tensor)
    if tensor.numel():
        copyable(copy).copy_(copyable(tensor))
    return copy


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype is not other.dtype or one.size() != other.size() or one.stride() != other.stride():
        return False
    as_bytes = [t.contiguous().view(torch.uint8) if t.dim() else t.reshape(1).view(torch.uint8) for t in (one, other)]
    return torch.equal(*as_bytes)
