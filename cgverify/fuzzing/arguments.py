"""Makes the tensors that a program is called with: values from a seed, memory from a layout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from cgverify.fuzzing.program import Input
from cgverify.fuzzing.values import TORCH_DTYPES

import torch

DTYPES = {name: getattr(torch, path.removeprefix("torch.")) for name, path in TORCH_DTYPES.items()}

SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e30, -1e-30)
"""What `values="special"` puts in every third place."""


def make_inputs(inputs: Sequence[Input], seeds: Sequence[int], layouts: Sequence[str]) -> list[torch.Tensor]:
    """Return one tensor for each input; `seeds` and `layouts` have one entry each."""
    made: list[torch.Tensor] = []
    roomy = {
        e.alias_of for e, layout in zip(inputs, layouts, strict=True) if e.alias_of is not None and layout == "offset"
    }
    for number, (entry, seed, layout) in enumerate(zip(inputs, seeds, layouts, strict=True)):
        if entry.alias_of is not None:
            tensor = _share(made[entry.alias_of], entry, layout)
        elif number in roomy:
            tensor = _place_with_room(draw_values(entry, seed), entry.device)
        else:
            tensor = _place(draw_values(entry, seed), layout, entry.device)
        made.append(tensor.requires_grad_(entry.trains))
    return made


def make_values(shape: tuple[int, ...], dtype: Any, device: str, seed: int) -> torch.Tensor:
    """Return a tensor of an input's kind with the values that `seed` stands for."""
    return draw_values(Input(shape=shape, dtype=dtype), seed).to(device, copy=True)


def _share(base: torch.Tensor, entry: Input, layout: str) -> torch.Tensor:
    """Return a tensor on the memory of `base`: the same elements, or those one element further on."""
    base = base.detach()
    if layout == "offset":
        return base.as_strided(base.shape, base.stride(), base.storage_offset() + 1)
    return base.view(entry.shape) if base.is_contiguous() else base.view(base.shape)


def _place_with_room(values: torch.Tensor, device: str) -> torch.Tensor:
    """Return a contiguous copy with room for one more element behind it, which is a 1."""
    padded = torch.cat((values.reshape(-1), values.new_ones(1))).to(device)
    return padded[:-1].view(values.shape)


@lru_cache(maxsize=1024)
def draw_values(entry: Input, seed: int) -> torch.Tensor:
    """Return a contiguous CPU tensor of the input's shape and dtype with the values that `seed` stands for.

    Every side of a comparison asks for the same values, so they are remembered: do not write to them.
    """
    generator = torch.Generator().manual_seed(seed)
    dtype = DTYPES[entry.dtype]
    if entry.dtype == "bool":
        return torch.randint(0, 2, entry.shape, generator=generator).to(dtype)
    if entry.dtype == "u8":
        return torch.randint(0, 5, entry.shape, generator=generator).to(dtype)
    if not dtype.is_floating_point or entry.values == "integers":
        return torch.randint(-4, 5, entry.shape, generator=generator).to(dtype)
    values = torch.randn(entry.shape, generator=generator, dtype=torch.float64)
    if entry.values == "special":
        flat = values.view(-1)
        for position in range(seed % 3, flat.numel(), 3):
            flat[position] = SPECIAL[(seed + position) % len(SPECIAL)]
    return values.to(dtype)


def _place(values: torch.Tensor, layout: str, device: str) -> torch.Tensor:
    """Return a copy of the values on `device`, with the strides that `layout` stands for."""
    shape = values.shape
    rank = len(shape)
    if layout == "transposed" and rank >= 2:
        swapped = values.transpose(-2, -1).clone(memory_format=torch.contiguous_format)
        return swapped.to(device).transpose(-2, -1)
    if layout == "strided" and rank >= 1:
        return torch.stack((values, values), -1).to(device)[..., 0]
    if layout == "offset":
        padded = torch.cat((values.new_zeros(1), values.reshape(-1))).to(device)
        return padded[1:].view(shape)
    if layout == "expanded" and rank >= 1 and shape[0] > 0:
        return values[:1].to(device, copy=True).expand(shape)
    return values.to(device, copy=True)
