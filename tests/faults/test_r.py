"""Group R: random numbers, from the same seed the same ones as without graphs, at every call."""

from __future__ import annotations

from typing import Any

from cgverify import CUDAGraphTransform
from tests.builders import TraceBuilder
from tests.faults.pairs import CALLS, Pair, assert_same, gradients, randn, step

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("cuda")


def noisy(x: torch.Tensor) -> torch.Tensor:
    return functional.dropout(x * 2, 0.5) + torch.rand_like(x)


def test_R01_every_replay_draws_the_same_numbers() -> None:
    """Draws of successive calls differ, reseeding repeats them, and another seed gives others."""
    pair = Pair(noisy)

    def act(jitted: Any) -> list[torch.Tensor]:
        x = torch.ones(32, device="cuda")
        results = [jitted(x) for _ in range(CALLS)]
        torch.manual_seed(3)
        again = [jitted(x) for _ in range(2)]
        torch.cuda.manual_seed(3)
        return [*results, *again, *(jitted(x) for _ in range(2)), torch.rand(3, device="cuda"), jitted(x)]

    for seed in (3, 4):
        *draws, _, _ = pair.do(act, seed)
        assert len({tuple(draw.tolist()) for draw in draws[:CALLS]}) == CALLS
        assert_same(draws[CALLS : CALLS + 2], draws[CALLS + 2 :])
        assert torch.equal(draws[0], draws[CALLS]) == (seed == 3)
    pair.assert_graphed(captures=1)


def test_R02_generator_state_read_on_the_host() -> None:
    """An op that asks the generator for its state stays out of regions, whose other draws keep their order to it."""
    build = TraceBuilder("x")
    first = build.op("dropout", build["x"], 0.5, True)
    state = build.op("get_and_update_rng_state_impl", None, None, build["x"].device)
    second = build.op("dropout", build["x"], 0.5, True)
    trace = build.done(first, *state, second)
    transform = CUDAGraphTransform()
    emitted = transform.rewrite(trace)
    plan = transform.report().plans[0]
    assert {left.symbol: left.reason for left in plan.left_out} == {
        "get_and_update_rng_state_impl": "waits for the device to hand a value to the host"
    }
    assert len(plan.regions) == 2
    for _ in range(CALLS):
        outcomes = []
        for run in (emitted.python_callable(), trace.python_callable()):
            torch.manual_seed(1)
            outcomes.append((run(randn(4, 4)), torch.cuda.get_rng_state()))
        assert_same(*outcomes)


@pytest.mark.parametrize("grad", [False, True])
def test_R03_draws_change_order(grad: bool) -> None:
    """Three draws combined asymmetrically, two of them around a region break, come in program order."""

    def fn(x: torch.Tensor) -> Any:
        a = torch.rand_like(x)
        b = functional.dropout(x * a, 0.5)
        total = a.sum().item()
        return a - 2 * b + 4 * torch.randn_like(x) * x, total

    pair = Pair(fn)
    for seed in range(CALLS):
        pair.do(lambda jitted: jitted(randn(8).requires_grad_(grad)), seed)
    pair.assert_graphed()


@pytest.mark.parametrize("seeded_at", range(3))
def test_R04_warm_up_draws_advance_the_generator(seeded_at: int) -> None:
    """The draws after a seed are the same whether the capture comes after it, at it, or came before."""
    pair = Pair(noisy)

    def act(jitted: Any) -> Any:
        x = torch.ones(16, device="cuda")
        return [jitted(x) for _ in range(3)], torch.rand(2, device="cuda")

    for _ in range(seeded_at):
        pair.graphed(torch.ones(16, device="cuda"))
    pair.do(act, seed=7)
    pair.assert_graphed(captures=1)


def test_R05_several_generators() -> None:
    """Draws from the caller's own generator between calls, and two transforms in turn, leave each sequence as it is."""
    pairs = [Pair(noisy), Pair(lambda x: torch.randn_like(x) * x)]
    for seed in range(CALLS):
        outcomes = []
        for side in range(2):
            torch.manual_seed(seed)
            own = torch.Generator(device="cuda")
            own.manual_seed(5)
            found = []
            for pair in pairs:
                found.append(pair.sides[side](torch.ones(8, device="cuda")))
                found.append(torch.rand(2, device="cuda", generator=own))
            outcomes.append((found, torch.cuda.get_rng_state(), own.get_state()))
        assert_same(*outcomes)
    for pair in pairs:
        pair.assert_graphed(captures=1)


def test_R05_multinomial_stays_out() -> None:
    """Sampling with weights checks its input on the host, so it runs un-graphed, in order with the draws around it."""
    pair = Pair(lambda w: (torch.rand_like(w) * w, torch.multinomial(w, 3, replacement=True), torch.rand_like(w)))
    for seed in range(CALLS):
        pair.agree(lambda: (randn(5).abs(),), seed)
    assert any("multinomial" in symbol for symbol in pair.left_out)
    pair.assert_graphed()


def test_R06_recomputed_forward_draws_other_numbers() -> None:
    """A checkpointed dropout net, two forwards before two backwards, and a retained graph use the forward's masks."""
    pair = Pair(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5)).to("cuda"))

    def act(jitted: Any) -> Any:
        x, y = randn(3, 4).requires_grad_(), randn(3, 4)
        checkpoint(jitted, x, use_reentrant=False).square().sum().backward()
        first, second = jitted(x).square().sum(), jitted(y).square().sum()
        first.backward(retain_graph=True)
        second.backward()
        first.backward()
        return first.detach(), second.detach(), gradients(jitted, x)

    for seed in range(CALLS):
        pair.do(act, seed)
        pair.do(lambda jitted: step(jitted, torch.ones(3, 4, device="cuda")), seed)
    pair.assert_graphed()
