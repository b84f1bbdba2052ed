"""The tensors that programs are called with: values from seeds alone, layouts as named, memory of their own."""

from __future__ import annotations

from typing import get_args

from cgverify.fuzzing.arguments import DTYPES, draw_values, make_inputs
from cgverify.fuzzing.program import Input, Layout

import pytest
import torch

LAYOUTS = get_args(Layout)
SHAPES = ((), (1,), (3,), (1, 3), (3, 1), (2, 3), (2, 3, 4))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_memory_of_their_own(shape: tuple[int, ...], layout: str) -> None:
    """Whatever a caller writes to an input, the next one made from the same seed has the same values."""
    entry = Input(shape=shape, device="cpu")
    first = make_inputs([entry], [7], [layout])[0]
    kept = first.clone()
    if layout != "expanded":
        first.fill_(99.0)
    assert torch.equal(make_inputs([entry], [7], [layout])[0], kept)
    assert torch.equal(draw_values(entry, 7), make_inputs([entry], [7], ["contiguous"])[0])


def test_layouts() -> None:
    """Each layout has the strides, or the offset, that it is named for."""
    made = {name: make_inputs([Input(shape=(2, 3), device="cpu")], [1], [name])[0] for name in LAYOUTS}
    strides = {name: tensor.stride() for name, tensor in made.items()}
    assert strides["contiguous"] == strides["offset"] == (3, 1)
    assert made["offset"].storage_offset() == 1
    assert (strides["transposed"], strides["strided"], strides["expanded"]) == ((1, 2), (6, 2), (0, 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype: str) -> None:
    """Values depend on the seed; integers are small; special values are among the special ones."""
    entries = {kind: Input(shape=(30,), dtype=dtype, values=kind) for kind in ("normal", "integers", "special")}
    for entry in entries.values():
        assert draw_values(entry, 1).dtype == DTYPES[dtype]
        assert not torch.equal(draw_values(entry, 1), draw_values(entry, 2))
    assert float(draw_values(entries["integers"], 1).double().abs().max()) <= 4
    if DTYPES[dtype].is_floating_point:
        assert draw_values(entries["special"], 1).isnan().any()


def test_alias() -> None:
    """An alias shares its base's memory, with a shape of its own."""
    base, alias = make_inputs(
        [Input(shape=(2, 3), device="cpu"), Input(shape=(6,), device="cpu", alias_of=0)], [1, 2], ["contiguous"] * 2
    )
    assert base.data_ptr() == alias.data_ptr()
    assert alias.shape == (6,)


def test_shifted_alias() -> None:
    """An alias with the layout `offset` is its base one element further on: they overlap in part."""
    base, alias = make_inputs(
        [Input(shape=(2, 3), device="cpu"), Input(shape=(2, 3), device="cpu", alias_of=0, layout="offset")],
        [1, 2],
        ["contiguous", "offset"],
    )
    assert alias.data_ptr() == base.data_ptr() + 4
    assert torch.equal(alias.flatten()[:-1], base.flatten()[1:])
    assert alias.flatten()[-1] == 1
