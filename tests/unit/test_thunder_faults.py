"""Faults of Thunder's own passes that the verifier found, each in its smallest form, with eager and the verdict."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from cgverify import verify_each

import pytest
import thunder
import torch


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thunder asks torch for shapes on fake tensors, which warns on some versions."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        yield


def overwrite_after_use(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The product's gradient needs `y` as it was."""
    product = x * y
    y.mul_(2.0)
    return product


def test_gradient_reads_overwritten_memory() -> None:
    """Eager refuses the backward; Thunder returns a wrong gradient, and the verifier blames the grad transform."""
    x, y = torch.ones(3, requires_grad=True), torch.ones(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        overwrite_after_use(x, y).sum().backward()
    y = torch.ones(3)
    thunder.jit(overwrite_after_use)(x, y).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0, 2.0]  # d(x * y)/dx is y, which was 1
    found = verify_each(overwrite_after_use, x, torch.ones(3))
    assert [(check.name, check.report.codes) for check in found.passes if not check.proved] == [
        ("Grad transform pass", ("CG307",))
    ]


def draw_and_ignore(x: torch.Tensor) -> torch.Tensor:
    """The first draw is not used, but it moves the generator."""
    torch.rand(4)
    return x + torch.rand(4)


def test_unused_draws_are_dropped() -> None:
    """From one seed Thunder returns other numbers than eager, and the verifier blames dead code elimination."""
    x = torch.zeros(4)
    torch.manual_seed(0)
    eager = draw_and_ignore(x)
    torch.manual_seed(0)
    assert not torch.equal(thunder.jit(draw_and_ignore)(x), eager)
    found = verify_each(draw_and_ignore, x)
    assert found.guilty is not None
    assert found.guilty.name == "Dead Code Elimination"
    assert "CG502" in found.guilty.report.codes
