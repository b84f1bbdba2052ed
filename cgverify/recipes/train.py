"""Trains a small GPT or a convolutional net for some steps: ``python -m cgverify.recipes.train``.

Prints steps per second for each peer, and whether losses, parameters and buffers are, bit for bit, those of Thunder
without graphs. Eager is timed beside them: compilers round otherwise and draw other numbers for dropout.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cgverify.checking import open_device
from cgverify.loading import CheckError
from cgverify.recipes.convnet import ConvNet
from cgverify.recipes.gpt import GPT, GPTConfig
from cgverify.recipes.peers import (
    EAGER,
    RIGHT,
    THUNDER,
    Row,
    add_options,
    choose_peers,
    compile_module,
    describe,
    is_right,
    print_rows,
    quiet,
    run_recipe,
)

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class Task:
    """A model to train.

    Attributes:
        make: makes the module, on the CPU.
        draw: makes one batch on the device "cuda".
        loss: of a module's result, given the batch's targets.
    """

    make: Callable[[], nn.Module]
    draw: Callable[[], Batch]
    loss: Callable[[Callable[..., Tensor], Batch], Tensor]


def make_gpt(config: GPTConfig, batch: int) -> Task:
    """A language model, whose module returns the loss."""

    def draw() -> Batch:
        tokens = torch.randint(config.vocabulary, (batch, config.context + 1), device="cuda")
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    return Task(lambda: GPT(config), draw, lambda module, batch: module(*batch))


def make_convnet(width: int, blocks: int, batch: int, size: int) -> Task:
    """A classifier of images, with the loss outside the module."""

    def draw() -> Batch:
        return torch.randn(batch, 3, size, size, device="cuda"), torch.randint(10, (batch,), device="cuda")

    def loss(module: Callable[..., Tensor], batch: Batch) -> Tensor:
        return functional.cross_entropy(module(batch[0]), batch[1])

    return Task(lambda: ConvNet(width, blocks), draw, loss)


SMALL = {
    "gpt": make_gpt(GPTConfig(vocabulary=64, context=8, width=32, heads=2, layers=1, dropout=0.1), 2),
    "convnet": make_convnet(4, 1, 2, 8),
}
"""For the emulation, where times say nothing."""

LARGE = {
    "gpt": make_gpt(GPTConfig(vocabulary=8192, context=128, width=256, heads=4, layers=3, dropout=0.1), 4),
    "convnet": make_convnet(16, 4, 16, 32),
}
"""For a GPU: every op is so small that the host is the limit."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What training left behind: the loss of each step, then parameters and buffers."""

    losses: tuple[float, ...]
    state: dict[str, Tensor]

    def differs(self, other: Trained) -> str:
        """What is not bit for bit the same; empty if all is."""
        steps = [k for k, pair in enumerate(zip(self.losses, other.losses, strict=True)) if pair[0] != pair[1]]
        if steps:
            return f"the loss differs from step {steps[0]} on"
        names = [name for name, value in self.state.items() if not torch.equal(value, other.state[name])]
        return f"{len(names)} parameters and buffers differ, such as {names[0]}" if names else ""


def train(task: Task, module: nn.Module, call: Callable[..., Tensor], batches: Sequence[Batch]) -> Trained:
    """One step of AdamW for each batch, with dropout from a seed of its own."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    torch.manual_seed(1)
    losses = []
    for batch in batches:
        loss = task.loss(call, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    torch.cuda.synchronize()
    state = {name: value.detach().clone() for name, value in module.state_dict().items()}
    return Trained(tuple(float(loss) for loss in losses), state)


def run_peers(task: Task, peers: Sequence[str], steps: int, entry: str = "jit") -> list[Row]:
    """Trains each peer from one start, compares with Thunder, and times as many steps again; the device is open."""
    torch.manual_seed(2)
    batches = [task.draw() for _ in range(steps)]
    yardstick: dict[str, Trained] = {}

    def measure(peer: str) -> Row:
        torch.manual_seed(0)
        module = task.make().to("cuda").train()
        compiled = compile_module(peer, module, entry)
        started = time.perf_counter()
        yardstick[peer] = trained = train(task, module, compiled.call, batches)
        first = time.perf_counter() - started
        verdict = _judge(peer, trained, yardstick.get(THUNDER))
        started = time.perf_counter()
        train(task, module, compiled.call, batches)
        rate = steps / (time.perf_counter() - started)
        return Row(peer, first, rate, verdict, compiled.graphs())

    return run_recipe(measure, peers)


def _judge(peer: str, trained: Trained, thunder: Trained | None) -> str:
    """The verdict on a peer; where Thunder itself failed there is nothing to be right by."""
    if peer == EAGER or thunder is None:
        return "not compared"
    wrong = trained.differs(thunder)
    return f"wrong: {wrong}" if wrong else RIGHT


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the recipe; 0 if cgverify's results are Thunder's, 1 if not, 2 if it cannot run here."""
    parser = argparse.ArgumentParser(prog="python -m cgverify.recipes.train", description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--model", default="gpt", choices=tuple(SMALL), help="what is trained")
    parser.add_argument("--steps", type=int, help="how many; default: 5 on the emulation, 50 on a GPU")
    options = parser.parse_args(arguments)
    try:
        peers = choose_peers(f"{options.peers},{THUNDER}")
        with quiet(), open_device(options.device) as device:
            small = device == "emulated"
            task = (SMALL if small else LARGE)[options.model]
            rows = run_peers(task, peers, options.steps or (5 if small else 50), options.entry)
    except CheckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"format": "cgverify-train", "version": 1, "device": device, "rows": describe(rows)}))
    else:
        print_rows(f"training, {options.model}, {device}", "steps/s", rows)
    return 0 if is_right(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
