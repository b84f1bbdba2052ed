"""Group H: entries, their number, and what they hold."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

from cgverify import CUDAGraphTransform
from cgverify.emulation import EmulatedCUDA
from cgverify.runtime.guards import Refusal
from tests.faults.pairs import CALLS, Pair, randn, step

import pytest
import thunder
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("cuda")


def strided(*stride: int, offset: int = 0, dtype: torch.dtype = torch.float32) -> Callable[[], torch.Tensor]:
    return lambda: randn(64, dtype=dtype).as_strided((4, 4), stride, offset)


@pytest.mark.parametrize(
    ("first", "second", "captures"),
    [
        (strided(4, 1), strided(4, 1), 1),
        (strided(4, 1), strided(1, 4), 2),
        (strided(4, 1), strided(8, 2), 2),
        (strided(4, 1), strided(4, 1, offset=1), 2),
        (strided(4, 1), strided(4, 1, offset=4), 1),
        (strided(4, 1), strided(4, 1, dtype=torch.float64), 2),
        (strided(4, 1), lambda: randn(2, 8), 2),
        (strided(4, 1), lambda: strided(4, 1)().requires_grad_(), 3),
    ],
    ids=["same", "transposed", "gapped", "misaligned", "aligned", "dtype", "size", "grad"],
)
def test_H01_entry_reused_where_it_does_not_fit(
    first: Callable[[], torch.Tensor], second: Callable[[], torch.Tensor], captures: int
) -> None:
    """Two arguments that agree in all but one respect have a graph each; those that agree in all share one."""
    pair = Pair(lambda x: (x * 2 + 1).sin())

    def act(jitted: Any, make: Callable[[], torch.Tensor]) -> Any:
        y = jitted(make())
        if y.requires_grad:
            y.sum().backward()
        return y.detach()

    for seed in range(CALLS):
        for make in (first, second):
            pair.do(lambda jitted, make=make: act(jitted, make), seed)
    pair.assert_graphed(captures=captures)


def test_H02_a_capture_for_every_size() -> None:
    """Sizes seen once are never captured, more than `max_graphs` graphs never live, and memory stays flat."""
    pair = Pair(lambda x: torch.relu(x) + 1, max_graphs=2)
    sizes = range(1, 6)
    for size in sizes:
        pair.agree(lambda size=size: (randn(size),))
    assert pair.transform.stats().captures == 0
    held = []
    for _ in range(3):
        for size in sizes:
            pair.agree(lambda size=size: (randn(size),))
            assert pair.transform.stats().graphs <= 2
        gc.collect()
        held.append(torch.cuda.memory_allocated())
    assert held[1] == held[2]


def test_H02_static_inputs_that_keep_moving() -> None:
    """A module whose weights move on each call costs a few captures, then a copy per call."""
    pair = Pair(nn.Linear(4, 4).to("cuda").requires_grad_(False))
    held = []
    for seed in range(16):
        for jitted in pair.sides:
            torch.manual_seed(seed)
            held.append(randn(4, 4))
            jitted.get_parameter("weight").data = held[-1]
        pair.agree(lambda: (randn(2, 4),), seed)
    assert pair.transform.stats().captures <= 3
    assert pair.transform.stats().replays >= 10


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
def test_H03_steps_in_the_key(cache: str) -> None:
    """A step counter that is unused, or only returned, costs no capture per value where Thunder compiles once."""
    pair = Pair(lambda x, step: ((x * 2).sin(), step), jit={"cache": cache})
    for step_number in range(CALLS + 2):
        pair.agree(lambda step_number=step_number: (randn(4), step_number), step_number)
    if cache == "symbolic values":
        pair.assert_graphed(captures=1)
    else:  # Thunder compiles anew for each number: each of its functions is called once
        assert pair.transform.stats().captures == 0


def test_H03_numbers_from_item() -> None:
    """A hundred values of `item` cost one capture per region."""
    pair = Pair(lambda x: (x + 1).sin() * x.sum().item() + (x * 2).cos())
    for _ in range(100):
        x = randn(4)
        assert torch.equal(pair.graphed(x), (x + 1).sin() * x.sum().item() + (x * 2).cos())
    regions = len(pair.transform.report().plans[0].regions)
    assert pair.transform.stats().captures == regions


def test_H04_static_copies_double_memory() -> None:
    """Weights are read in place: a training step's graphs hold copies of no parameter, and saved tensors are few."""
    module = nn.Sequential(nn.Linear(64, 64), nn.Tanh()).to("cuda")
    weights = sum(p.numel() * p.element_size() for p in module.parameters())
    pair = Pair(module)
    for seed in range(CALLS):
        pair.do(lambda jitted: step(jitted, randn(2, 64)), seed)
    stats = pair.transform.stats()
    assert stats.copies // stats.replays <= 8
    # what the backward hands out, the gradients, is in graph memory once; besides it there is no room for the weights
    workspace = 64 << 20 if EmulatedCUDA.current() is None else 0  # cuBLAS keeps one per capture stream
    assert weights <= stats.bytes_held < 2 * weights + workspace
    pair.assert_graphed(captures=2)


def test_H05_a_pool_per_graph() -> None:
    """Three graphs of one transform take little more memory than one: they share scratch and static buffers."""

    def held(functions: int) -> int:
        transform = CUDAGraphTransform()
        pairs = [Pair(lambda x: ((x * 2).sin() + 1).sum(), transform=transform) for _ in range(functions)]
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()  # or a capture may, and less would be held afterwards
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved()
        for pair in pairs:
            for _ in range(3):
                pair.graphed(randn(1 << 19))
        gc.collect()
        torch.cuda.empty_cache()
        assert transform.stats().graphs == functions
        return torch.cuda.memory_reserved() - before

    one = held(1)
    gc.collect()
    assert held(3) <= one + (2 << 20)


def test_H06_graphs_outlive_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that are built, run and deleted leave neither graphs nor memory behind; so does a lost transform."""
    alive: weakref.WeakSet[Any] = weakref.WeakSet()
    real = torch.cuda.CUDAGraph.capture_begin

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        alive.add(self)
        real(self, *args, **kwargs)

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", capture_begin)
    transform = CUDAGraphTransform()
    gc.collect()
    before = torch.cuda.memory_allocated()
    for shared in (transform, None):
        for _ in range(2):
            function = thunder.jit(lambda x: torch.relu(x) + 1, transforms=[shared or CUDAGraphTransform()])
            for _ in range(3):
                function(randn(256))
            assert alive
            del function
            gc.collect()
            assert not alive
    assert transform.stats().graphs == 0
    assert torch.cuda.memory_allocated() <= before


def test_H07_fixed_costs_add_up() -> None:
    """The bound on graphs holds over all functions, regions and entries of a transform, and `reset` drops all."""
    transform = CUDAGraphTransform(max_graphs=3)
    pairs = [Pair(lambda x: ((x * 2).sum().item(), torch.relu(x)), transform=transform) for _ in range(2)]
    for _ in range(3):
        for pair in pairs:
            for size in (3, 4):
                pair.agree(lambda size=size: (randn(size),))
                assert transform.stats().graphs <= 3
    assert transform.stats().graphs == 3
    transform.reset()
    gc.collect()
    assert (transform.stats().graphs, transform.stats().bytes_held) == (0, 0)
    for _ in range(2):
        pairs[0].agree(lambda: (randn(3),))
    assert transform.stats().graphs > 0


def test_H08_graph_slower_than_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve arguments and results cost one grouped copy in and one out; views alone cost no graph at all."""
    pair = Pair(lambda *xs: [torch.relu(x) * 2 for x in xs])
    for seed in range(2):
        pair.agree(lambda: tuple(randn(4) for _ in range(12)), seed)
    calls: list[int] = []
    real = torch._foreach_copy_
    monkeypatch.setattr(torch, "_foreach_copy_", lambda *args: (calls.append(len(args[0])), real(*args)))
    pair.agree(lambda: tuple(randn(4) for _ in range(12)))
    assert calls == [12, 12]
    views, slices = Pair(lambda x: (x.t(), x.view(-1))), Pair(lambda x: x[1:])
    for seed in range(CALLS):
        views.agree(lambda: (randn(4, 4),), seed)
        slices.agree(lambda: (randn(4, 4),), seed)
    assert views.transform.report().plans[0].regions == ()
    assert slices.ungraphed(Refusal.EMPTY) == CALLS - 1
