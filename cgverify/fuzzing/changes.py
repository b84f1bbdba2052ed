"""What a caller does to tensors between calls, one tensor at a time."""

from __future__ import annotations

from collections.abc import Sequence

from cgverify.fuzzing.program import Input
from cgverify.fuzzing.resolution import Resolved

import msgspec
import torch


def decide_share(
    resolved: Resolved, entries: Sequence[Input], number: int, base: int, *, traced_anew: bool
) -> Input | None:
    """Return what input `number` becomes when it is to share memory with `base`; None where it stays as it is.

    A trace that was built without knowing of the sharing (`traced_anew=False`) promises nothing where it writes.
    """
    if resolved.writes_inputs and not traced_anew:
        return None
    first, second = entries[base], entries[number]
    apart = base >= number or first.alias_of is not None or any(entry.alias_of == number for entry in entries)
    kinds = [(entry.shape, entry.dtype, entry.device, entry.role, entry.trains) for entry in (first, second)]
    if apart or kinds[0] != kinds[1] or second.role != "arg":
        return resolved.inputs[number]
    return msgspec.structs.replace(second, alias_of=base)


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether one element is another's memory too, as in what `expand` makes."""
    return any(stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def values_like(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Return small integers of a tensor's shape, dtype and device."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-4, 5, tuple(tensor.shape), generator=generator)
    return values.to(tensor.dtype).to(tensor.device)


def weights_of(result: torch.Tensor) -> torch.Tensor:
    """Return weights that tell the elements apart and are exact in every dtype."""
    count = torch.arange(result.numel()) % 3 + 1
    return count.to(result.dtype).view(result.shape).to(result.device)
