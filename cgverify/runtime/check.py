"""`check="first"`: one replay against the un-graphed body on copies of the same arguments, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cgverify.plan import Region
from cgverify.runtime.layout import buffer_like, copyable

import torch


def copies_of(args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The arguments as they are now, in memory of their own, with the same layouts and alignments."""
    return [_copy(arg) for arg in args]


def put_right(
    region: Region,
    body: Callable[..., Sequence[torch.Tensor]],
    args: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    copies: Sequence[torch.Tensor],
    state: torch.Tensor,
) -> str | None:
    """Runs the body after a replay, from where the replay began, and compares.

    The body comes second, so that a replay which misses work cannot find the body's results in freed memory.

    Args:
        region: the plan.
        body: what was captured.
        args: the arguments after the replay.
        results: what the replay made.
        copies: the arguments before the replay; the body runs on them.
        state: the generator's state before the replay.

    Returns:
        What differs, None for nothing. On a difference results, written arguments and generator become the body's.
    """
    device = torch.device(region.device)
    replayed = torch.cuda.get_rng_state(device)
    torch.cuda.set_rng_state(state, device)
    expected = list(body(*copies))
    difference = _difference(region, args, copies, results, expected)
    if difference is None and not torch.equal(replayed, torch.cuda.get_rng_state(device)):
        difference = "the generator's position"
    if difference is None:
        return None
    for entry, arg, copy in zip(region.inputs, args, copies, strict=True):
        if entry.written:
            copyable(arg).copy_(copyable(copy))
    for result, value in zip(results, expected, strict=True):
        copyable(result).copy_(copyable(value))
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
    if not one.numel():
        return True  # and its bytes cannot be viewed, whatever the strides
    as_bytes = [t.contiguous().view(torch.uint8) if t.dim() else t.reshape(1).view(torch.uint8) for t in (one, other)]
    return torch.equal(*as_bytes)
