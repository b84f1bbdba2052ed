"""Writes the tensors that a caller passes as Python expressions; mirrors :mod:`cgverify.fuzzing.arguments`."""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.arguments import DTYPES, draw_values
from cgverify.fuzzing.program import Input
from cgverify.fuzzing.values import TORCH_DTYPES, TensorType

import torch


def render_tensor(entry: Input, seed: int, layout: str, *, roomy: bool = False) -> str:
    """Return the expression for an input's values in its layout; `roomy`: with room for one more element."""
    values = draw_values(entry, seed)
    rank = len(entry.shape)
    to = f'.to("{entry.device}")'
    made = _literal(values, entry.dtype)
    if roomy:
        return f"torch.nn.functional.pad({made}.flatten(), (0, 1), value=1){to}[:-1].view({entry.shape!r})"
    if layout == "transposed" and rank >= 2:
        return f"{made}.transpose(-2, -1).contiguous(){to}.transpose(-2, -1)"
    if layout == "strided" and rank >= 1:
        return f"{made}.repeat_interleave(2).view({(*entry.shape, 2)!r}){to}[..., 0]"
    if layout == "offset":
        return f"torch.nn.functional.pad({made}.flatten(), (1, 0)){to}[1:].view({entry.shape!r})"
    if layout == "expanded" and rank >= 1 and entry.shape[0] > 0:
        return f"{made}[:1]{to}.expand({entry.shape!r})"
    return f"{made}{to}"


def render_alias(base: str, entry: Input, layout: str) -> str:
    """Return the expression for an input on the memory of the one named `base`."""
    if layout == "offset":
        return f"{base}.detach().as_strided({base}.shape, {base}.stride(), {base}.storage_offset() + 1)"
    return f"{base}.detach().view({entry.shape!r} if {base}.is_contiguous() else {base}.shape)"


def render_integers(kind: TensorType, seed: int) -> str:
    """Return the expression for small integers of a tensor's shape and dtype, on the CPU."""
    values = torch.randint(-4, 5, kind.shape, generator=torch.Generator().manual_seed(seed)).to(DTYPES[kind.dtype])
    return _literal(values, kind.dtype)


def _literal(values: torch.Tensor, dtype: str) -> str:
    text: Any = values.tolist()
    # An empty list does not tell the other sizes.
    shape = f".view({tuple(values.shape)!r})" if not values.numel() else ""
    return f"torch.tensor({text!r}, dtype={TORCH_DTYPES[dtype]}){shape}"
