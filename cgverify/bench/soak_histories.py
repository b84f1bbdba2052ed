"""What a soak calls: functions with and without graphs, in random histories that compare the two, bit for bit.

Each history is one object for all threads. A step makes its own inputs and state, runs both sides on them in the same
order on the current stream, and says what differs. A history that is *exclusive* changes what all threads share, the
default generator or parameters, and is stepped while no other thread is in a step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cgverify.api import CUDAGraphTransform
from cgverify.bench.soak_functions import WIDTH, Net, accumulate, drop, infer, read_on_host

import thunder
import torch
from torch import nn

ROWS = (1, 2, 3, 5, 8, 13, 21, 34)
"""Sizes of the batch: more shapes than graphs may live, so that graphs come and go."""


class Draw:
    """The random choices of one thread; tensors come from a generator of its own, on the host.

    Args:
        seed: of both.
        sizes: of the batches.
    """

    def __init__(self, seed: int, sizes: Sequence[int] = ROWS) -> None:
        self.choice = random.Random(seed)
        self.sizes = sizes
        self._generator = torch.Generator().manual_seed(seed)

    def tensor(self, *shape: int) -> torch.Tensor:
        """Normally distributed numbers on the device."""
        return torch.randn(shape, generator=self._generator).to("cuda")

    def batch(self) -> torch.Tensor:
        """A batch of one of the sizes."""
        return self.tensor(self.choice.choice(self.sizes), WIDTH)


class History(Protocol):
    """One kind of call, again and again.

    Attributes:
        name: for the summary.
        exclusive: whether no other thread may be in a step meanwhile.
    """

    name: str
    exclusive: bool

    def warm(self, draw: Draw) -> None:
        """Compiles both sides for every size; Thunder compiles in one thread only."""

    def step(self, draw: Draw) -> tuple[str, list[torch.Tensor]]:
        """Runs both sides once; what differs, empty for nothing, and results to hold on to."""


@dataclass
class Sides:
    """One function, or one module, with graphs and without."""

    graphed: Callable[..., Any]
    plain: Callable[..., Any]


def jit_both(function: Callable[..., Any], transform: CUDAGraphTransform) -> Sides:
    """Both sides of a function; those of a module share its parameters."""
    return Sides(thunder.jit(function, transforms=[transform]), thunder.jit(function))


@dataclass
class Calls:
    """Inference: results of a function of one batch; it may read a value on the host, hand out views, or branch off."""

    name: str
    sides: Sides
    exclusive: bool = False

    def warm(self, draw: Draw) -> None:
        """See `History`."""
        for rows in draw.sizes:
            for side in (self.sides.graphed, self.sides.plain):
                side(draw.tensor(rows, WIDTH))

    def step(self, draw: Draw) -> tuple[str, list[torch.Tensor]]:
        """See `History`."""
        x = draw.batch()
        results, expected = as_tensors(self.sides.graphed(x)), as_tensors(self.sides.plain(x))
        return difference(results, expected), results


@dataclass
class Draws(Calls):
    """As `Calls`, for a function that draws random numbers: same numbers, and the generator ends at the same place."""

    exclusive: bool = True

    def step(self, draw: Draw) -> tuple[str, list[torch.Tensor]]:
        """See `History`."""
        x, seed = draw.batch(), draw.choice.randrange(1 << 30)
        outcomes = []
        for side in (self.sides.graphed, self.sides.plain):
            torch.cuda.manual_seed(seed)
            outcomes.append([*as_tensors(side(x)), torch.cuda.get_rng_state()])
        return difference(*outcomes), outcomes[0][:-1]


@dataclass
class Writes:
    """A function that writes its second argument in place: state that lives on from call to call."""

    name: str
    sides: Sides
    exclusive: bool = False

    def warm(self, draw: Draw) -> None:
        """See `History`."""
        for rows in draw.sizes:
            for side in (self.sides.graphed, self.sides.plain):
                side(draw.tensor(rows, WIDTH), draw.tensor(WIDTH))

    def step(self, draw: Draw) -> tuple[str, list[torch.Tensor]]:
        """See `History`."""
        start = draw.tensor(WIDTH)
        mine, theirs = start.clone(), start.clone()
        results: list[torch.Tensor] = []
        expected: list[torch.Tensor] = []
        for _ in range(draw.choice.randint(1, 4)):
            x = draw.batch()
            results += as_tensors(self.sides.graphed(x, mine))
            expected += as_tensors(self.sides.plain(x, theirs))
        return difference([*results, mine], [*expected, theirs]), results


@dataclass
class Trains:
    """A module: several forwards, then gradients in any order, some twice, some never."""

    name: str
    sides: Sides
    parameters: tuple[nn.Parameter, ...]
    exclusive: bool = False

    def warm(self, draw: Draw) -> None:
        """See `History`."""
        for rows in draw.sizes:
            for side in (self.sides.graphed, self.sides.plain):
                torch.autograd.grad(side(draw.tensor(rows, WIDTH)).square().sum(), self.parameters)

    def step(self, draw: Draw) -> tuple[str, list[torch.Tensor]]:
        """See `History`."""
        batches = [draw.batch() for _ in range(draw.choice.randint(1, 3))]
        order = draw.choice.sample(range(len(batches)), draw.choice.randint(0, len(batches)))
        twice = draw.choice.random() < 0.3
        results, expected = (self._run(side, batches, order, twice) for side in (self.sides.graphed, self.sides.plain))
        return difference(results, expected), results

    def _run(
        self, side: Callable[..., Any], batches: Sequence[torch.Tensor], order: Sequence[int], twice: bool
    ) -> list[torch.Tensor]:
        losses = [side(batch).square().sum() for batch in batches]
        found = [loss.detach() for loss in losses]
        for position in order:
            if twice:
                found += torch.autograd.grad(losses[position], self.parameters, retain_graph=True)
            found += torch.autograd.grad(losses[position], self.parameters)
        return found


@dataclass
class Updates:
    """What an optimiser does between calls: parameters written in place, now and then moved to new memory."""

    name: str
    parameters: tuple[nn.Parameter, ...]
    exclusive: bool = True

    def warm(self, draw: Draw) -> None:
        """See `History`."""

    def step(self, draw: Draw) -> tuple[str, list[torch.Tensor]]:
        """See `History`."""
        torch.cuda.synchronize()  # calls of other threads may still read them
        with torch.no_grad():
            for parameter in self.parameters:
                parameter.mul_(1 + draw.choice.uniform(-1e-3, 1e-3))
            if draw.choice.random() < 0.05:
                parameter = draw.choice.choice(self.parameters)
                parameter.data = parameter.data.clone()
        torch.cuda.synchronize()
        return "", []


def make_histories(transform: CUDAGraphTransform) -> list[History]:
    """All of them, under one transform."""
    net = Net().to("cuda")
    parameters = tuple(net.parameters())
    return [
        Calls("inference", jit_both(infer, transform)),
        Calls("item", jit_both(read_on_host, transform)),
        Writes("in-place writes", jit_both(accumulate, transform)),
        Trains("training", jit_both(net, transform), parameters),
        Draws("dropout", jit_both(drop, transform)),
        Updates("parameter updates", parameters),
    ]


def as_tensors(results: Any) -> list[torch.Tensor]:
    """One tensor or several, as a list."""
    return [results] if isinstance(results, torch.Tensor) else list(results)


def difference(results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str:
    """Which result differs from the un-graphed one in some bit, empty for none."""
    if len(results) != len(expected):
        return f"{len(results)} results in place of {len(expected)}"
    for position, (one, other) in enumerate(zip(results, expected, strict=True)):
        if (one.dtype, one.shape, one.stride()) != (other.dtype, other.shape, other.stride()):
            return f"result {position} has another dtype, shape or layout"
        if not torch.equal(*(t.contiguous().reshape(-1).view(torch.uint8) for t in (one, other))):
            return f"result {position} differs by up to {(one - other).abs().max().item():.3g}"
    return ""
