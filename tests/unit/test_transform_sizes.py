"""Sizes under `cache="symbolic values"`: computed inside regions where they stay there, and one capture per shape."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from cgverify import VerificationError
from tests.faults.pairs import Pair, randn

import pytest
import torch
from torch.nn import functional

pytestmark = pytest.mark.usefixtures("cuda")

SHAPES = ((3, 4), (4, 5), (5, 4))


def pair_of(function: Callable[..., Any], *more: Callable[[], Any]) -> Pair:
    """The function on three shapes, three times each, on both sides; its first argument is (rows, columns)."""
    pair = Pair(function, jit={"cache": "symbolic values"})
    for shape in SHAPES:
        for seed in range(3):
            pair.agree(lambda shape=shape: (randn(*shape), *(make() for make in more)), seed)
    assert len(pair.transform.report().plans) == 1  # Thunder compiled once
    return pair


def averaged(x: torch.Tensor) -> torch.Tensor:
    scores = x @ x.t()
    return scores.softmax(-1) / scores.shape[0]


INSIDE: dict[str, Callable[[torch.Tensor], Any]] = {
    "scaled by a size": lambda x: x * x.shape[0] + 1,
    "mean by hand": lambda x: x.sum(0) / x.shape[0],
    "reshaped": lambda x: x.reshape(x.shape[0] * x.shape[1]).sin(),
    "sliced": lambda x: x[: x.shape[0] - 1] * 2,
    "filled": lambda x: torch.full((x.shape[1],), 2.0, device="cuda") + x.sum(0),
    "normalised": lambda x: functional.layer_norm(x, (x.shape[-1],)),
    "expanded": lambda x: x[0].expand(x.shape[0], x.shape[1]) + x,
    "a float of it": lambda x: (x.relu() * (x.shape[0] + 0.5)).sin().sum(),
    "a size of an intermediate": averaged,
}


@pytest.mark.parametrize("function", INSIDE.values(), ids=list(INSIDE))
def test_sizes_are_computed_inside_the_region(function: Callable[[torch.Tensor], Any]) -> None:
    """All of the function is one region, captured once for each shape, and right on each."""
    pair = pair_of(function)
    (plan,) = pair.transform.report().plans
    assert len(plan.regions) == 1 and not plan.left_out
    pair.assert_graphed(captures=len(SHAPES))


def test_a_size_that_is_returned_stays_outside() -> None:
    """The caller gets the size of its call; what is computed with it runs un-graphed, the rest does not."""
    pair = pair_of(lambda x: (x.sin() * x.shape[0] + 1, x.shape[0]))
    assert set(pair.left_out) == {"shape", "mul"}
    assert pair.left_out["mul"].startswith("works on `i")
    pair.assert_graphed()


def test_a_size_that_two_regions_need_stays_outside() -> None:
    """A host read between two uses parts them into regions, and no number crosses a border."""
    pair = pair_of(lambda x: ((x * x.shape[0]) / (x * x.shape[0]).sum().item()).sin() * x.shape[0])
    assert {"shape", "mul"} <= set(pair.left_out)
    pair.assert_graphed()


def test_what_does_not_come_from_sizes_stays_outside() -> None:
    """Numbers of the caller's, alone or together with sizes, and sizes of CPU tensors are no graph's constants."""
    numbers = itertools.count(0.5)
    pair = Pair(
        lambda x, s, h: (x.sin() * s, x.cos() * (s + x.shape[0]), x.tan() * h.shape[0]),
        jit={"cache": "symbolic values"},
    )
    for shape in SHAPES:
        for seed in range(3):
            number = next(numbers)
            pair.agree(lambda shape=shape, number=number: (randn(*shape), number, torch.ones(shape[1])), seed)
    assert "mul" in pair.left_out
    assert all(symbol != "mul" or reason.startswith("works on") for symbol, reason in pair.left_out.items())
    pair.assert_graphed(captures=len(SHAPES))


def test_a_tensor_is_not_copied_for_its_sizes_alone() -> None:
    """A tensor that is asked for its sizes and for nothing else is no input of a region."""
    pair = pair_of(lambda x, y: x.sin() * y.shape[0], lambda: torch.ones(7, 3, device="cuda"))
    (plan,) = pair.transform.report().plans
    assert all(len(region.inputs) == 1 for region in plan.regions)
    assert "shape" in pair.left_out


def test_numbers_that_cross_a_border_would_not_be_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the trial the same size reaches two regions, and the verifier refuses the rewrite."""
    monkeypatch.setattr("cgverify.transform.driver.compute_inner_sizes", lambda view, partition, sizes: sizes)
    with pytest.raises(VerificationError) as raised:
        pair_of(lambda x: (x * x.shape[0], (x.sum().item() + x.cos()) / x.sum().item() * x.shape[0]))
    assert "CG206" in raised.value.report.codes
