"""Group C: gradients, and training loops of every shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.faults.pairs import CALLS, Pair, assert_same, detached, gradients, randn, step

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("cuda")


def leaf(*shape: int) -> torch.Tensor:
    return randn(*shape).requires_grad_()


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh()).to("cuda")


def in_turn(losses: list[torch.Tensor]) -> None:
    for loss in losses:
        loss.backward()


ORDERS: list[Callable[[list[torch.Tensor]], None]] = [
    in_turn,
    lambda losses: in_turn(losses[::-1]),
    lambda losses: torch.stack(losses).sum().backward(),
]


def test_C01_several_forwards_before_the_first_backward() -> None:
    """Three forwards, with one without gradients between, then their backwards in each order."""
    pair = Pair(net())

    def act(jitted: Any, order: Callable[[list[torch.Tensor]], None]) -> Any:
        losses = [jitted(randn(2, 3)).square().sum() for _ in range(2)]
        with torch.no_grad():
            unrelated = jitted(randn(2, 3))
        losses.append(jitted(randn(2, 3)).square().sum())
        order(losses)
        return detached(losses), unrelated, gradients(jitted)

    for seed in range(2):
        for order in ORDERS:
            pair.do(lambda jitted, order=order: act(jitted, order), seed)
    pair.assert_graphed()


def test_C01_accumulation_over_micro_batches() -> None:
    """Gradients of four micro-batches add up to the same sum, step after step, under an in-place optimiser."""
    pair = Pair(net())
    optimisers = {id(jitted): torch.optim.SGD(jitted.parameters(), lr=0.1, momentum=0.9) for jitted in pair.sides}

    def act(jitted: Any) -> Any:
        for _ in range(4):
            jitted(randn(2, 3)).square().mean().backward()
        grads = [p.grad.clone() for p in jitted.parameters()]
        optimisers[id(jitted)].step()
        optimisers[id(jitted)].zero_grad()
        return grads, [p.detach() for p in jitted.parameters()]

    for seed in range(CALLS):
        pair.do(act, seed)
    pair.assert_graphed(captures=2)


def test_C02_gradients_kept_by_the_caller() -> None:
    """Gradients that the caller keeps, from `.grad` or `autograd.grad`, stay; two backwards without zeroing add up."""
    pair = Pair(lambda x, w: torch.tanh(x @ w))
    w = [randn(3, 3).requires_grad_() for _ in range(2)]
    w[1].data.copy_(w[0].data)
    kept: tuple[list[Any], list[Any]] = [], []
    for seed in range(CALLS):
        for jitted, weight, grads in zip(pair.sides, w, kept, strict=True):
            torch.manual_seed(seed)
            x = leaf(2, 3)
            grads += torch.autograd.grad(jitted(x, weight).sum(), (x, weight))
            weight.grad = None
            jitted(x, weight).square().sum().backward()
            grads.append(weight.grad)
            jitted(x, weight).square().sum().backward()
            grads.append(x.grad)
    assert_same(*kept)
    assert len({grad.data_ptr() for grad in kept[0]}) == len(kept[0])
    pair.assert_graphed()


def test_C03_saved_tensors_in_a_shared_pool() -> None:
    """Forwards and backwards of three functions of one transform interleave; none recycles what another saved."""
    pair = Pair(net())
    functions = (lambda x: torch.exp(x).tanh(), lambda x: torch.softmax(x, -1) * x)
    pairs = [pair, *(Pair(fn, transform=pair.transform) for fn in functions)]
    sides = [[p.graphed for p in pairs], [p.plain for p in pairs]]
    for seed in range(CALLS):
        outcomes = []
        for first, second, third in sides:
            torch.manual_seed(seed)
            x, y, z = leaf(2, 3), leaf(4, 4), leaf(5, 4)
            a, b = first(x).square().sum(), second(y).sum()
            a.backward()
            c = third(z).square().sum()
            d = second(z * 2).sum()
            (c + d).backward()
            b.backward()
            outcomes.append((gradients(first, x, y, z), detached((a, b, c, d))))
        assert_same(*outcomes)
    pair.assert_graphed()


def test_C04_forward_captured_again_for_other_strides() -> None:
    """The backward reads what the forward of its own call saved, whichever layout that call had."""
    pair = Pair(lambda x, w: torch.tanh(x * w) * x)
    for seed in range(CALLS):
        for layout in (lambda t: t, lambda t: t.t(), lambda t: t[:, :1].expand(3, 3)):
            pair.do(lambda jitted, layout=layout: step(jitted, layout(randn(3, 3)), leaf(3, 3)), seed)
    pair.assert_graphed()


COTANGENTS: dict[str, Callable[[torch.Tensor], None]] = {
    "sum": lambda y: y.sum().backward(),
    "mean": lambda y: y.mean().backward(),
    "weighted": lambda y: (y * randn(4, 4)).sum().backward(),
    "transposed": lambda y: y.backward(randn(4, 4).t()),
    "expanded": lambda y: y.backward(randn(4, 1).expand(4, 4)),
    "row": lambda y: y[0].sum().backward(),
    "strided": lambda y: y.backward(randn(4, 8)[:, ::2]),
}


def test_C05_layouts_of_incoming_gradients() -> None:
    """One function's backward takes dense, stride-0, transposed and strided cotangents in turn."""
    pair = Pair(lambda x, w: torch.tanh(x @ w))

    def act(jitted: Any, backward: Callable[[torch.Tensor], None]) -> Any:
        x, w = leaf(4, 4), leaf(4, 4)
        backward(jitted(x, w))
        return gradients(jitted, x, w)

    for seed in range(3):
        for backward in COTANGENTS.values():
            pair.do(lambda jitted, backward=backward: act(jitted, backward), seed)
    pair.assert_graphed()


def test_C06_outputs_without_a_gradient() -> None:
    """Backward of one output, of the other, of both; an integer output beside them has none."""
    pair = Pair(lambda x, w: (torch.tanh(x @ w), (x * w).sin(), (x > 0).sum()))

    def act(jitted: Any, which: tuple[int, ...]) -> Any:
        x, w = leaf(3, 3), leaf(3, 3)
        results = jitted(x, w)
        torch.stack([results[k].sum() for k in which]).sum().backward()
        return detached(results), gradients(jitted, x, w)

    for seed in range(3):
        for which in ((0,), (1,), (0, 1)):
            pair.do(lambda jitted, which=which: act(jitted, which), seed)
    pair.assert_graphed()


def test_C06_frozen_parameters_and_arguments() -> None:
    """Parameters frozen and thawed between calls, and arguments with and without gradients, get what is due."""
    pair = Pair(nn.Linear(3, 2).to("cuda"))
    for seed in range(2 * CALLS):
        for jitted in pair.sides:
            jitted.get_parameter("weight").requires_grad_(seed // 2 % 2 == 0)
        pair.do(lambda jitted, seed=seed: step(jitted, randn(2, 3).requires_grad_(seed % 2 == 1)), seed)
    pair.assert_graphed()


def test_C07_recomputation_in_backward() -> None:
    """Two checkpointed uses of a graphed net, one inside the other, recompute in backward what they computed."""
    pair = Pair(nn.Sequential(nn.Linear(3, 3), nn.Tanh()).to("cuda"))

    def act(jitted: Any) -> Any:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return checkpoint(jitted, jitted(x), use_reentrant=False)

        x = leaf(2, 3)
        y = checkpoint(inner, x, use_reentrant=False)
        y.square().sum().backward()
        return y.detach(), gradients(jitted, x)

    for seed in range(CALLS):
        pair.do(act, seed)
    pair.assert_graphed()


def test_C07_recomputation_that_thunder_traces() -> None:
    """A checkpoint inside the jitted function recomputes in its backward region."""
    pair = Pair(lambda x, w: checkpoint(lambda a: torch.tanh(a @ w).sin(), x, use_reentrant=False) * 2)
    for seed in range(CALLS):
        pair.do(lambda jitted: step(jitted, leaf(3, 3), leaf(3, 3)), seed)
    pair.assert_graphed()


def test_C08_accumulators_remember_a_stream() -> None:
    """Parameters that had an eager backward on another stream train on under graphs."""
    pair = Pair(net())
    side = torch.cuda.Stream()
    for jitted in pair.sides:
        with torch.cuda.stream(side):
            torch.stack([p.square().sum() for p in jitted.parameters()]).sum().backward()
        torch.cuda.current_stream().wait_stream(side)
    pair.do(lambda jitted: gradients(jitted))
    for seed in range(CALLS):
        pair.do(lambda jitted: step(jitted, randn(2, 3)), seed)
    pair.assert_graphed(captures=2)


def test_C09_hooks_on_gradients() -> None:
    """Hooks of tensors, and those that run after accumulation, run once per backward."""
    pair = Pair(net())
    seen: dict[int, list[Any]] = {id(jitted): [] for jitted in pair.sides}
    for jitted in pair.sides:
        notes = seen[id(jitted)]
        for parameter in jitted.parameters():
            parameter.register_hook(lambda grad, notes=notes: notes.append(grad.clone()))
            parameter.register_post_accumulate_grad_hook(lambda p, notes=notes: notes.append(p.grad.clone()))

    def act(jitted: Any) -> Any:
        x = leaf(2, 3)
        x.register_hook(lambda grad: grad * 2)
        return step(jitted, x)

    for seed in range(CALLS):
        pair.do(act, seed)
    assert_same(*seen.values())
    assert len(seen[id(pair.graphed)]) == 2 * 2 * CALLS
    pair.assert_graphed(captures=2)


def test_C10_gradients_set_to_none() -> None:
    """Optimiser steps see this step's gradients, whether they were zeroed, dropped, or one parameter was frozen."""
    pair = Pair(net())
    optimisers = {id(jitted): torch.optim.Adam(jitted.parameters(), lr=0.05) for jitted in pair.sides}

    def act(jitted: Any, to_none: bool) -> Any:
        optimisers[id(jitted)].zero_grad(set_to_none=to_none)
        jitted(randn(2, 3)).square().sum().backward()
        optimisers[id(jitted)].step()
        return [p.grad.clone() for p in jitted.parameters()], [p.detach() for p in jitted.parameters()]

    for seed in range(2 * CALLS):
        pair.do(lambda jitted, seed=seed: act(jitted, seed % 3 != 0), seed)
    pair.assert_graphed(captures=2)


def test_C10_an_optimiser_step_that_is_graphed() -> None:
    """A jitted update reads gradients wherever they are, and writes the caller's parameter."""

    def update(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor) -> None:
        m.mul_(0.9).add_(g)
        p.sub_(m * 0.1)

    pair = Pair(update)
    states = [(torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")) for _ in range(2)]
    held = []
    for seed in range(CALLS):
        for jitted, (p, m) in zip(pair.sides, states, strict=True):
            torch.manual_seed(seed)
            held.append(randn(3))
            jitted(p, held[-1], m)
        assert_same(*states)
    pair.assert_graphed(captures=1)


def test_C11_one_tensor_object_for_every_call() -> None:
    """Each call returns tensor objects of its own: flags, hooks and gradients of one do not show on the next."""
    pair = Pair(lambda x: torch.tanh(x) * 2)
    results = []
    for _ in range(CALLS):
        y = pair.graphed(randn(3))
        assert not y.requires_grad and y.grad is None
        y.requires_grad_().register_hook(lambda grad: grad * 2)
        y.square().sum().backward()
        results.append(y)
    assert len({id(y) for y in results}) == CALLS
    for y in results:
        assert torch.equal(y.grad, 4 * y.detach())
    pair.assert_graphed(captures=1)


def test_C11_retained_graph_is_run_again() -> None:
    """Backward twice over one retained graph gives the gradient twice, with another forward between."""
    pair = Pair(lambda x, w: torch.tanh(x @ w).square().sum())

    def act(jitted: Any) -> Any:
        x, w = leaf(2, 3), leaf(3, 3)
        loss = jitted(x, w)
        loss.backward(retain_graph=True)
        jitted(leaf(2, 3), w)
        loss.backward()
        return gradients(jitted, x, w)

    for seed in range(CALLS):
        pair.do(act, seed)
    pair.assert_graphed()


def swap_data(module: Any) -> None:
    module.get_parameter("0.weight").data = randn(4, 3)


def assign_state(module: Any) -> None:
    module.load_state_dict({name: torch.randn_like(value) for name, value in module.state_dict().items()}, assign=True)


def new_parameter(module: Any) -> None:
    module._model[0].weight = nn.Parameter(randn(4, 3))


def test_C04_parameters_replaced_between_training_steps() -> None:
    """A parameter replaced by `.data`, `load_state_dict(assign=True)` or a new one trains on from its new value."""
    pair = Pair(net())
    for seed in range(2):
        for change in (swap_data, assign_state, new_parameter):
            pair.do(lambda jitted: step(jitted, randn(2, 3)), seed)
            pair.do(change, seed)
            pair.do(lambda jitted: step(jitted, randn(2, 3)), seed)
    pair.assert_graphed()


def test_C01_grad_modes_mixed_in() -> None:
    """Training steps with calls under `no_grad` and `inference_mode`, and inference tensors as arguments, between."""
    pair = Pair(lambda x, w: functional.dropout(torch.tanh(x @ w), 0.3))

    def act(jitted: Any) -> Any:
        x, w = leaf(2, 3), leaf(3, 3)
        y = jitted(x, w)
        with torch.no_grad():
            z = jitted(x, w)
        with torch.inference_mode():
            made = randn(2, 3)
            u = jitted(made, w.detach()).clone()
            v = jitted(x, w).clone()
        y.square().sum().backward()
        return y.detach(), z, u + 0, v + 0, gradients(jitted, x, w)

    for seed in range(CALLS):
        pair.do(act, seed)
    pair.assert_graphed()
