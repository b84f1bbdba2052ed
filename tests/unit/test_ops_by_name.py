"""Ops that Thunder knows by name alone: it finds their results out on fake tensors, with gradients too."""

from __future__ import annotations

from collections.abc import Callable

from cgverify import CUDAGraphTransform
from tests.faults.pairs import assert_same, randn

import pytest
import thunder
import torch

pytestmark = pytest.mark.usefixtures("cuda")

OPS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda x: torch.dot(x[0], x[1]),
    lambda x: x.half() * 2,
    lambda x: torch.diff(x),
    lambda x: torch.logcumsumexp(x, 0),
    lambda x: torch.cdist(x, x * 2),
    lambda x: x.new_zeros(3) + x.sum(),
)


@pytest.mark.parametrize("op", OPS, ids=("dot", "half", "diff", "logcumsumexp", "cdist", "new_zeros"))
def test_values_and_gradients(op: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """They are eager's, under graphs, and so are devices; without a GPU the process used to end here."""
    jitted = thunder.jit(lambda x: op(x), transforms=[CUDAGraphTransform()])
    for _ in range(3):
        found, leaf = [], randn(3, 4)
        for call in (jitted, op):
            x = leaf.clone().requires_grad_()
            result = call(x)
            result.sum().backward()
            found.append((result.detach(), x.grad))
        assert found[0][0].device == found[1][0].device
        assert_same(*found)


def test_a_result_on_the_host_stays_there() -> None:
    """What stands in for the device while results are found out is not mistaken for the host, or the host for it."""
    jitted = thunder.jit(lambda x: (x.cpu() * 2, x.new_ones(2, device="cpu"), x.new_ones(2)))
    results = jitted(randn(4).requires_grad_())
    assert [str(result.device) for result in results] == ["cpu", "cpu", "cuda:0"]
    assert [result.requires_grad for result in results] == [True, True, True]
