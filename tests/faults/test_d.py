"""Group D: memory that a graph uses after it is gone, and memory of a graph that others use."""

from __future__ import annotations

import functools
import gc
from typing import Any

from tests.faults.pairs import CALLS, Pair, assert_same, operator, randn

import pytest
import torch
from thunder.core.proxies import TensorProxy
from torch import nn

pytestmark = pytest.mark.usefixtures("cuda")


class Holder(nn.Module):
    """A module with a constant that is neither parameter nor buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.constant = torch.ones(64, device="cuda")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.constant + 1


def test_D01_constants_freed_before_a_replay() -> None:
    """A constant replaced between calls is freed, its memory filled by others, and replays read the new one."""
    pair = Pair(Holder())

    def replace(jitted: Any) -> None:
        jitted._model.constant = randn(64)

    for seed in range(CALLS + 2):
        pair.agree(lambda: (randn(64),), seed)
        pair.do(replace, seed)
        gc.collect()
        held = [torch.full((64,), float("nan"), device="cuda") for _ in range(4)]
        pair.agree(lambda: (randn(64),), seed)
        del held
    pair.assert_graphed()


def test_D01_arguments_freed_before_a_replay() -> None:
    """Nothing of the call that was captured is read later: its arguments are freed and their memory filled."""
    pair = Pair(lambda x, y: (x * y).sum() + x)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(64), randn(64)), seed)
        torch.cuda.empty_cache()
        held = torch.full((64 * 8,), float("nan"), device="cuda")
        pair.agree(lambda: (randn(64), randn(64)), seed)
        del held
    pair.assert_graphed(captures=1)


def test_D02_library_workspaces() -> None:
    """A product replays right after a larger one, on the same stream, was captured, dropped, and memory handed out."""
    small = Pair(lambda x: x @ x)
    for seed in range(3):
        small.agree(lambda: (randn(8, 8),), seed)
        large = Pair(lambda x: x @ x + 1, transform=small.transform)
        for _ in range(3):
            large.agree(lambda: (randn(64, 64),), seed)
        del large
        gc.collect()
        torch.cuda.empty_cache()
        held = torch.full((4096,), float("nan"), device="cuda")
        small.agree(lambda: (randn(8, 8),), seed)
        del held
    small.assert_graphed()


def test_D03_graphs_of_one_pool_in_any_order() -> None:
    """Two functions in one pool, with their results still held, in the orders f g, g f, f f g and nested."""
    f = Pair(lambda x: (x * 2).sin() + 1)
    g = Pair(lambda x: torch.softmax(x, 0) * x, transform=f.transform)
    for seed in range(CALLS):
        outcomes = []
        for side in range(2):
            torch.manual_seed(seed)
            one, other = f.sides[side], g.sides[side]
            a, b = one(randn(16)), other(randn(16))
            c, d = other(a), one(b)
            outcomes.append((a, b, c, d, one(one(c)), other(one(d)), one(a[:8]), other(b[8:])))
        assert_same(*outcomes)
    assert f.transform.stats().graphs == 4
    f.assert_graphed()


def test_D04_long_lived_buffer_on_scratch_memory() -> None:
    """A scratch tensor that an op caches at first use lies outside the pool, for the first call is never captured."""

    @functools.cache
    def scratch(size: int) -> torch.Tensor:
        return torch.zeros(size, device="cuda")

    def cached(a: torch.Tensor) -> torch.Tensor:
        return scratch(a.numel()) + a

    symbol, jit = operator(cached, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: symbol((x * 2).sin()) * 3, jit=jit, capturable={"cached"})
    canary = None
    for seed in range(CALLS):
        pair.agree(lambda: (randn(32),), seed)
        canary = scratch(32) if canary is None else canary
        assert scratch(32) is canary and not canary.any()
        canary.zero_()
    pair.assert_graphed(captures=1)


def test_D05_pool_released_under_live_graphs() -> None:
    """A module that went to the host and back, an emptied cache, and a function built again and again are right."""
    module = nn.Linear(8, 8).to("cuda").requires_grad_(False)
    pair = Pair(module)

    def there_and_back(jitted: Any) -> None:
        jitted._model.to("cpu")
        torch.cuda.empty_cache()
        jitted._model.to("cuda")

    for seed in range(CALLS + 2):
        pair.agree(lambda: (randn(2, 8),), seed)
        if seed > 1:
            pair.do(there_and_back)
            gc.collect()
    pair.assert_graphed()
    transform = pair.transform
    for seed in range(2):
        again = Pair(lambda x: torch.relu(x) + 1, transform=transform)
        for _ in range(3):
            again.agree(lambda: (randn(16),), seed)
        del again
        gc.collect()
        torch.cuda.empty_cache()
        if seed == 0:
            transform.reset()


class Leaky(nn.Module):
    """A module that stores an intermediate and rebinds a buffer's data."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.zeros(4))
        self.weight = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) * self.weight
        self.last = y
        self.weight.mul_(0.5)
        return y + 1


def test_D06_tensor_that_escapes_by_a_side_door() -> None:
    """An intermediate stored on the module belongs to the module: later calls do not change what was stored."""
    pair = Pair(nn.Sequential(Leaky()).to("cuda"))
    kept: tuple[list[Any], list[Any]] = [], []
    for seed in range(CALLS):
        pair.do(lambda jitted: (jitted(randn(4)), jitted.get_parameter("0.weight").clone()), seed)
        for jitted, stored in zip(pair.sides, kept, strict=True):
            stored.append(jitted.get_buffer("0.last"))
    assert_same(*kept)
    assert len({stored.data_ptr() for stored in kept[0]}) == CALLS
    pair.assert_graphed()
