"""Ways in which people call models, each as a function of the way to compile; what it returns has to be the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cgverify.recipes.convnet import ConvNet

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

Compile = Callable[[Callable[..., Any]], Any]
Pattern = Callable[[Compile], Any]

PATTERNS: dict[str, Pattern] = {}


def pattern(function: Pattern) -> Pattern:
    """Add a pattern to the table."""
    PATTERNS[function.__name__] = function
    return function


class MLP(nn.Module):
    """Two layers around which the input is added, with shared weights if asked for."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 8)
        if tied:
            self.down.weight = self.up.weight

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 8) to the same."""
        return self.down(functional.gelu(self.up(self.norm(x)))) + x


def on_device(make: Callable[[], nn.Module]) -> Any:
    """A module with the same weights every time."""
    torch.manual_seed(0)
    return make().to("cuda")


def draw(*shape: int, seed: int = 0) -> Tensor:
    """The same numbers every time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to("cuda")


def train(module: nn.Module, call: Callable[..., Tensor], optimizer: torch.optim.Optimizer, sizes: list[int]) -> Any:
    """One step for each batch size; the losses and the weights."""
    losses = []
    for seed, size in enumerate(sizes):
        loss = call(draw(size, 8, seed=seed)).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses, list(module.parameters())


@pattern
def tied_weights_and_momentum(compile: Compile) -> Any:
    module = on_device(lambda: MLP(tied=True))
    return train(module, compile(module), torch.optim.SGD(module.parameters(), 0.1, momentum=0.9), [3] * 4)


@pattern
def alternating_batch_sizes(compile: Compile) -> Any:
    module = on_device(MLP)
    return train(module, compile(module), torch.optim.SGD(module.parameters(), 0.1), [2, 3, 4] * 3)


@pattern
def autocast(compile: Compile) -> Any:
    module = on_device(MLP)
    compiled = compile(module)

    def call(x: Tensor) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return compiled(x)

    return train(module, call, torch.optim.SGD(module.parameters(), 0.1), [3] * 4)


@pattern
def gradients_zeroed_in_place(compile: Compile) -> Any:
    module = on_device(MLP)
    call, optimizer, losses = compile(module), torch.optim.Adam(module.parameters(), 0.01), []
    for seed in range(4):
        loss = call(draw(3, 8, seed=seed)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        losses.append(loss.detach())
    return losses, list(module.parameters())


@pattern
def accumulated_gradients(compile: Compile) -> Any:
    module = on_device(MLP)
    call, seen = compile(module), []
    for seed in range(6):
        call(draw(3, 8, seed=seed)).pow(2).mean().backward()
        if seed % 3 == 2:
            seen += [parameter.grad.clone() for parameter in module.parameters()]
            module.zero_grad()
    return seen


@pattern
def clipped_gradients_and_moving_average(compile: Compile) -> Any:
    module = on_device(MLP)
    call, optimizer = compile(module), torch.optim.AdamW(module.parameters(), 0.1)
    averages, norms = [p.detach().clone() for p in module.parameters()], []
    for seed in range(4):
        call(draw(3, 8, seed=seed)).pow(2).mean().backward()
        norms.append(nn.utils.clip_grad_norm_(module.parameters(), 0.1).detach())
        optimizer.step()
        optimizer.zero_grad()
        for average, parameter in zip(averages, module.parameters(), strict=True):
            average.lerp_(parameter.detach(), 0.1)
    return norms, averages


@pattern
def inference_mode(compile: Compile) -> Any:
    call = compile(on_device(MLP).requires_grad_(False))
    with torch.inference_mode():
        return [call(draw(3, 8, seed=seed)) for seed in range(4)]


@pattern
def validation_between_training_steps(compile: Compile) -> Any:
    module = on_device(lambda: ConvNet(4, 1))
    call, optimizer, seen = compile(module), torch.optim.SGD(module.parameters(), 0.01), []
    for seed in range(6):
        images = draw(4, 3, 8, 8, seed=seed)
        if seed % 3 == 2:
            call.eval()
            with torch.no_grad():
                seen += [call(images), call(images)]
            call.train()
            continue
        loss = call(images).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.detach())
    return seen, list(module.state_dict().values())


@pattern
def loaded_weights(compile: Compile) -> Any:
    module, other, seen = on_device(MLP), on_device(MLP), []
    call = compile(module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
        for seed in range(6):
            if seed == 3:
                module.load_state_dict(other.state_dict())
            seen.append(call(draw(3, 8, seed=seed)))
    return seen


@pattern
def sampled_tokens(compile: Compile) -> Any:
    def sample(scores: Tensor) -> Tensor:
        noise = torch.rand_like(scores).clamp(min=1e-6)
        return (scores - torch.log(-torch.log(noise))).argmax(-1)

    call = compile(sample)
    torch.manual_seed(7)
    return [call(draw(3, 8, seed=seed)) for seed in range(5)] + [torch.rand(3, device="cuda")]


@pattern
def checkpointed(compile: Compile) -> Any:
    module = on_device(MLP)
    call, seen = compile(lambda x: checkpoint(module, x, use_reentrant=False)), []
    for seed in range(4):
        call(draw(3, 8, seed=seed)).pow(2).mean().backward()
        seen += [parameter.grad.clone() for parameter in module.parameters()]
        module.zero_grad()
    return seen


@pattern
def two_losses_of_one_call(compile: Compile) -> Any:
    module, seen = on_device(MLP), []

    def losses(x: Tensor) -> tuple[Tensor, Tensor]:
        y = module(x)
        return y.sum(), y.pow(2).mean()

    call = compile(losses)
    for seed in range(4):
        first, second = call(draw(3, 8, seed=seed))
        first.backward(retain_graph=True)
        second.backward()
        seen += [first.detach(), second.detach(), *(parameter.grad.clone() for parameter in module.parameters())]
        module.zero_grad()
    return seen


@pattern
def two_models_in_turn(compile: Compile) -> Any:
    maker, judge = on_device(MLP), on_device(MLP)
    make, rate, seen = compile(maker), compile(judge), []
    optimizers = [torch.optim.SGD(module.parameters(), 0.1) for module in (maker, judge)]
    for seed in range(4):
        made = make(draw(3, 8, seed=seed))
        for model, sign, inputs in ((1, 1, (made.detach(), draw(3, 8, seed=50))), (0, -1, (made,))):
            loss = sign * sum(rate(x).mean() for x in inputs)
            loss.backward()
            optimizers[model].step()
            for optimizer in optimizers:
                optimizer.zero_grad()
            seen.append(loss.detach())
    return seen, [*maker.parameters(), *judge.parameters()]


@pattern
def optimised_input(compile: Compile) -> Any:
    call = compile(on_device(MLP).requires_grad_(False))
    x = draw(3, 8).requires_grad_()
    for _ in range(4):
        (gradient,) = torch.autograd.grad(call(x).pow(2).mean(), x)
        with torch.no_grad():
            x.sub_(gradient)
    return x


@pattern
def result_fed_back(compile: Compile) -> Any:
    call = compile(lambda state, x, weight: torch.tanh(state @ weight + x))
    states = [draw(2, 4)]
    for seed in range(6):
        states.append(call(states[-1], draw(2, 4, seed=seed), draw(4, 4, seed=9)))
    return states
