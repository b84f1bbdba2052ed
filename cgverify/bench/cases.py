"""What is timed: chains of small ops and a transformer block, from seeds, the same for every peer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial

import torch
from torch import nn
from torch.nn import functional

SEEDS = (0, 1, 2, 3)
"""One set of inputs for each seed: a peer must be right on all of them before it is timed on the first."""

TORCH, COMPILED = "torch", "torchcompile"
"""Executors of Thunder: one kernel for each op, or regions handed to torch.compile."""

Inputs = tuple[torch.Tensor, ...]
Function = Callable[..., torch.Tensor | Inputs]


@dataclass(frozen=True, slots=True)
class Workload:
    """A function on the device, and what it is called with.

    Attributes:
        function: takes tensors and returns a tensor or a tuple of tensors; a scalar loss where there are `parameters`.
        parameters: what a step computes the gradients of; empty for inference.
        inputs: one set for each of `SEEDS`, each in memory of its own.
        tolerance: how far a result may lie from eager's, relative to the largest element of eager's; 0 demands
            equality.
    """

    function: Function
    parameters: tuple[nn.Parameter, ...]
    inputs: tuple[Inputs, ...]
    tolerance: float

    def step(self, function: Function) -> Callable[..., torch.Tensor | Sequence[torch.Tensor]]:
        """A whole call of `function`, a version of this workload's: the call, then the gradients if there are any."""
        if not self.parameters:
            return function

        def step(*inputs: torch.Tensor) -> list[torch.Tensor]:
            loss = function(*inputs)
            assert isinstance(loss, torch.Tensor)
            return [loss.detach(), *torch.autograd.grad(loss, self.parameters)]

        return step


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to time.

    Attributes:
        name: unique; what ``--cases`` selects by.
        about: one line for the reader.
        make: puts the workload on the device called "cuda".
        executors: names of Thunder executors that it is compiled with, one after the other.
        quick: those of them that a quick run takes; none if the case is not part of it.
        compiled: whether torch.compile takes part.
    """

    name: str
    about: str
    make: Callable[[], Workload]
    executors: tuple[str, ...]
    quick: tuple[str, ...] = ()
    compiled: bool = True


class UnknownCaseError(ValueError):
    """A pattern that selects nothing; the message lists what there is."""


def choose_cases(cases: Sequence[Case], patterns: str | None, *, quick: bool) -> tuple[Case, ...]:
    """The cases that one of the comma-separated `patterns` matches; without patterns all, or the quick ones.

    A quick run takes fewer executors where a case says so, and torch.compile only beside the executor of that kind.

    Raises:
        UnknownCaseError: a pattern matches no case.
    """
    chosen = tuple(cases)
    if patterns is not None:
        wanted = [pattern.strip() for pattern in patterns.split(",")]
        for pattern in wanted:
            if not any(fnmatchcase(case.name, pattern) for case in cases):
                known = ", ".join(case.name for case in cases)
                raise UnknownCaseError(f"no case is called {pattern!r}: choose among {known}, or use a pattern with *")
        chosen = tuple(case for case in cases if any(fnmatchcase(case.name, pattern) for pattern in wanted))
    elif quick:
        chosen = tuple(case for case in cases if case.quick)
    return tuple(_quick(case) for case in chosen) if quick else chosen


def _quick(case: Case) -> Case:
    executors = case.quick or case.executors
    return replace(case, executors=executors, compiled=case.compiled and COMPILED in executors)


def chain_source(ops: int, inputs: int, outputs: int = 1) -> str:
    """Source of `chain`, a straight line, since Thunder interprets bytecode and a loop costs it several times more.

    Halving is exact, and so a fused multiply-add rounds like the two ops: every compiler must give eager's bits.

    Args:
        ops: how many; enough to use each input.
        inputs: how many tensors the chain takes.
        outputs: how many of its last values it returns.
    """
    assert ops >= 2 * (inputs - 1) and outputs <= ops
    names = [f"x{k}" for k in range(inputs)]
    lines = [f"def chain({', '.join(names)}):"]
    value = names[0]
    for op in range(ops):
        right = "* 0.5" if op % 2 else f"+ {names[(op // 2 + 1) % inputs]}"
        lines.append(f"    t{op} = {value} {right}")
        value = f"t{op}"
    results = [f"t{op}" for op in range(ops - outputs, ops)]
    lines.append(f"    return {', '.join(results)}")
    return "\n".join(lines) + "\n"


def make_chain(ops: int, inputs: int, elements: int, outputs: int = 1) -> Workload:
    """A chain of pointwise ops on float32 vectors."""
    namespace: dict[str, Callable[..., torch.Tensor]] = {}
    exec(compile(chain_source(ops, inputs, outputs), f"<chain of {ops} ops>", "exec"), namespace)
    return Workload(namespace["chain"], (), _inputs([(elements,)] * inputs), tolerance=0.0)


class Block(nn.Module):
    """A pre-norm transformer block.

    Attention is written out, so that every peer starts from the same ops. Layers are calls of functions: Thunder
    interprets bytecode, and a module's call takes it longer than all the rest. Keys have no bias: softmax cancels it.
    """

    def __init__(self, width: int, heads: int, *, loss: bool) -> None:
        super().__init__()
        self.heads, self.depth, self.loss = heads, width // heads, loss
        self.gain1, self.gain2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
        self.shift1, self.shift2 = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.query, self.key, self.value, self.out = (_weight(width, width) for _ in range(4))
        self.query_bias, self.value_bias, self.out_bias = (nn.Parameter(torch.zeros(width)) for _ in range(3))
        self.up, self.up_bias = _weight(4 * width, width), nn.Parameter(torch.zeros(4 * width))
        self.down, self.down_bias = _weight(width, 4 * width), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, sequence, width) float32 to the same, or with `loss` to the mean of its squares."""
        batch, sequence, width = x.shape
        normed = functional.layer_norm(x, (width,), self.gain1, self.shift1)
        query = functional.linear(normed, self.query, self.query_bias)
        key = functional.linear(normed, self.key)
        value = functional.linear(normed, self.value, self.value_bias)
        query = query.view(batch, sequence, self.heads, self.depth).transpose(1, 2)
        key = key.view(batch, sequence, self.heads, self.depth).transpose(1, 2)
        value = value.view(batch, sequence, self.heads, self.depth).transpose(1, 2)
        weights = torch.softmax(query @ key.transpose(-2, -1) * self.depth**-0.5, dim=-1)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, sequence, width)
        x = x + functional.linear(mixed, self.out, self.out_bias)
        normed = functional.layer_norm(x, (width,), self.gain2, self.shift2)
        hidden = functional.gelu(functional.linear(normed, self.up, self.up_bias))
        result = x + functional.linear(hidden, self.down, self.down_bias)
        return (result * result).mean() if self.loss else result


def _weight(outputs: int, inputs: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(outputs, inputs) * inputs**-0.5)


def make_block(batch: int, sequence: int, width: int, heads: int, *, training: bool) -> Workload:
    """A transformer block in inference, or with the loss and the gradients of a training step."""
    torch.manual_seed(0)
    block = Block(width, heads, loss=training).to("cuda").requires_grad_(training)
    parameters = tuple(block.parameters()) if training else ()
    # compilers sum matrix products and norms in other orders
    return Workload(block, parameters, _inputs([(batch, sequence, width)]), tolerance=1e-3)


def _inputs(shapes: Sequence[tuple[int, ...]]) -> tuple[Inputs, ...]:
    def make(seed: int) -> Inputs:
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape, generator=generator).to("cuda") for shape in shapes)

    return tuple(make(seed) for seed in SEEDS)


def _chain(
    ops: int,
    inputs: int,
    elements: int,
    *executors: str,
    outputs: int = 1,
    quick: tuple[str, ...] = (),
    compiled: bool = True,
) -> Case:
    size = f"-{elements}" if elements != SMALL else ""
    results = f"-{outputs}out" if outputs > 1 else ""
    plural = "s" if outputs > 1 else ""
    about = f"{ops} pointwise ops, {inputs} inputs, {outputs} result{plural}, {elements:,} float32 elements each"
    make = partial(make_chain, ops, inputs, elements, outputs)
    return Case(f"chain-{ops}x{inputs}{results}{size}", about, make, executors, quick, compiled)


def _block(
    name: str,
    sizes: tuple[int, int, int, int],
    *executors: str,
    training: bool,
    quick: tuple[str, ...] = (),
) -> Case:
    batch, sequence, width, heads = sizes
    what = "loss and gradients" if training else "inference"
    about = f"transformer block, {what}: batch {batch}, sequence {sequence}, width {width}, {heads} heads, float32"
    make = partial(make_block, *sizes, training=training)
    return Case(f"{name}-{'training' if training else 'inference'}", about, make, executors, quick)


SMALL = 1024
"""Elements at which a kernel costs less than its launch."""

BOTH = (TORCH, COMPILED)

CASES = (
    _chain(6, 2, SMALL, *BOTH, quick=BOTH),
    _chain(32, 16, SMALL, *BOTH, quick=BOTH),
    _chain(128, 64, SMALL, *BOTH, quick=(TORCH,)),
    _block("block", (2, 128, 512, 8), *BOTH, training=True, quick=(TORCH,)),
    _block("block", (2, 128, 512, 8), *BOTH, training=False, quick=(TORCH,)),
    _chain(20, 2, SMALL, TORCH, compiled=False),
    _chain(6, 2, 1 << 20, TORCH),
    _chain(64, 16, SMALL, TORCH, outputs=16, compiled=False),
    _block("block-large", (8, 512, 1024, 16), TORCH, training=True),
    _block("block-large", (8, 512, 1024, 16), TORCH, training=False),
    _chain(128, 64, 1 << 16, TORCH, compiled=False),
    _chain(512, 256, SMALL, TORCH, compiled=False),
)
"""The full run, the most telling cases first: a run that reaches its limit of time leaves out the last."""

REDUCED = (
    _chain(6, 2, SMALL, *BOTH),
    _chain(8, 4, SMALL, TORCH, outputs=4),
    _block("block", (1, 8, 16, 2), TORCH, training=False),
    _block("block", (1, 8, 16, 2), TORCH, training=True),
)
"""The same kinds, small enough for the emulation; their times say nothing."""
