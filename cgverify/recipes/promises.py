"""What graphs may not change, tried one by one: ``python -m cgverify.recipes.promises``.

Each row is a small function or module, called a few times with Thunder, with Thunder's own CUDA graphs and with
cgverify's, and held against eager PyTorch. It is the table of README.md, on the device of this machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from cgverify.checking import open_device
from cgverify.loading import CheckError
from cgverify.recipes.peers import CGVERIFY, THUNDER, THUNDER_GRAPHS, compile_callable, quiet

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

PEERS = (THUNDER, THUNDER_GRAPHS, CGVERIFY)

Compile = Callable[[Callable[..., Any]], Any]
Trial = Callable[[Compile], bool]

TRIALS: dict[str, tuple[str, Trial]] = {}
"""What is claimed -> the promise it belongs to, and whether it holds with a way to compile."""


@dataclass(frozen=True, slots=True)
class Row:
    """One claim and who keeps it.

    Attributes:
        promise: its name in the list of promises, P1 to P8.
        claim: in words.
        held: by peer, `yes`, `no`, or the class of the error that was raised.
    """

    promise: str
    claim: str
    held: dict[str, str]


def _claim(promise: str, claim: str) -> Callable[[Trial], Trial]:
    def register(trial: Trial) -> Trial:
        TRIALS[claim] = (promise, trial)
        return trial

    return register


def _inputs(count: int, *shape: int) -> list[Tensor]:
    return [torch.arange(float(torch.Size(shape).numel()), device="cuda").view(shape) + k for k in range(count)]


@_claim("P1", "dropout draws what it draws without graphs, from the first call on, and leaves the generator there")
def _dropout(compile: Compile) -> bool:
    def drop(x: Tensor) -> Tensor:
        return functional.dropout(torch.relu(x), 0.5) + 1

    dropped = compile(drop)
    x = torch.ones(64, device="cuda")
    torch.manual_seed(3)
    wanted = [drop(x) for _ in range(3)] + [torch.rand(4, device="cuda")]
    torch.manual_seed(3)
    found = [dropped(x) for _ in range(3)] + [torch.rand(4, device="cuda")]
    return all(map(torch.equal, wanted, found))


@_claim("P1", "gradients are right after a call without gradients")
def _grad_after_no_grad(compile: Compile) -> bool:
    squared = compile(lambda x: (x * x).sum())
    x = _inputs(1, 4)[0].requires_grad_()
    with torch.no_grad():
        squared(x)
    return all(torch.equal(torch.autograd.grad(squared(x), x)[0], 2 * x.detach()) for _ in range(3))


@_claim("P2", "results of earlier calls stay as they are")
def _held_results(compile: Compile) -> bool:
    scaled = compile(lambda x: torch.relu(x) * 2 + 1)
    inputs = _inputs(3, 4)
    results = [scaled(x) for x in inputs]
    return all(torch.equal(result, torch.relu(x) * 2 + 1) for result, x in zip(results, inputs, strict=True))


@_claim("P2", "two forwards, then both backwards, give both gradients")
def _two_forwards(compile: Compile) -> bool:
    product = compile(lambda x: (torch.sin(x) * x).sum())
    for _ in range(3):
        inputs = [x.requires_grad_() for x in _inputs(2, 4)]
        for loss in [product(x) for x in inputs]:
            loss.backward()
        wanted = [torch.autograd.grad((torch.sin(x) * x).sum(), x)[0] for x in inputs]
        if not all(x.grad is not None and torch.allclose(x.grad, w) for x, w in zip(inputs, wanted, strict=True)):
            return False
    return True


@_claim("P3", "a write to an argument reaches the caller, once per call")
def _written_argument(compile: Compile) -> bool:
    def count(seen: Tensor, x: Tensor) -> Tensor:
        seen.add_(1)
        return x * seen

    counting = compile(count)
    seen, x = torch.zeros(4, device="cuda"), torch.ones(4, device="cuda")
    return all(counting(seen, x).tolist() == [k] * 4 and seen.tolist() == [k] * 4 for k in (1.0, 2.0, 3.0))


@_claim("P3", "a counter in a buffer of a module grows by one per call")
def _counter(compile: Compile) -> bool:
    class Counter(nn.Module):
        calls: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.calls.add_(1)

    counter = Counter().to("cuda")
    counting = compile(counter)
    x = torch.ones(2, device="cuda")
    return all(counting(x).tolist() == [k] * 2 and counter.calls.tolist() == [k] for k in (1.0, 2.0, 3.0))


@_claim("P3", "running statistics of batch normalisation move once per call")
def _running_statistics(compile: Compile) -> bool:
    wanted, norm = (nn.BatchNorm1d(4).to("cuda").requires_grad_(False) for _ in range(2))
    normed = compile(norm)
    for x in _inputs(3, 8, 4):
        wanted(x), normed(x)
    return all(map(torch.equal, wanted.state_dict().values(), norm.state_dict().values()))


@_claim("P3", "a result that is a view of an argument is a view of the caller's tensor")
def _view(compile: Compile) -> bool:
    viewed = compile(lambda x: (x.view(2, 2), x + 1))
    return all(viewed(x)[0].data_ptr() == x.data_ptr() for x in _inputs(3, 4))


@_claim("P3", "replaced weights (`.data = ...`) are used")
def _replaced_weights(compile: Compile) -> bool:
    layer = nn.Linear(4, 4, bias=False).to("cuda").requires_grad_(False)
    applied = compile(nn.Sequential(layer, nn.ReLU()))
    x = torch.ones(1, 4, device="cuda")
    for k in range(4):
        layer.weight.data = torch.full((4, 4), float(k), device="cuda")
        if applied(x).tolist() != [[4.0 * k] * 4]:
            return False
    return True


@_claim("P4", "`.item()` inside the function, with another value on each call")
def _item(compile: Compile) -> bool:
    scaled = compile(lambda x: torch.relu(x) * x.sum().item())
    return all(torch.equal(scaled(x), torch.relu(x) * x.sum().item()) for x in _inputs(3, 4))


@_claim("P4", "the generator works after an `.item()` inside the function, whatever became of the call")
def _generator_survives(compile: Compile) -> bool:
    scaled = compile(lambda x: torch.relu(x) * x.sum().item())
    for x in _inputs(3, 4):
        try:
            scaled(x)
        except Exception:
            break
    return bool(torch.rand(4, device="cuda").sum() >= 0)


@_claim("P4", "a number in a CPU tensor is read anew on each call")
def _cpu_number(compile: Compile) -> bool:
    scaled = compile(lambda x, scale: torch.relu(x) * scale)
    x = torch.ones(4, device="cuda")
    return all(scaled(x, torch.tensor(k)).tolist() == [k] * 4 for k in (1.0, 2.0, 3.0))


@_claim("P4", "`.cpu()` inside the function")
def _to_cpu(compile: Compile) -> bool:
    moved = compile(lambda x: (torch.relu(x) * 2).cpu() + 1)
    return all(torch.equal(moved(x), (torch.relu(x) * 2).cpu() + 1) for x in _inputs(3, 4))


@_claim("P5", "ten sizes, each seen once, cost no capture")
def _sizes_seen_once(compile: Compile) -> bool:
    scaled = compile(lambda x: torch.relu(x) * 2)
    captures: list[None] = []
    begin = torch.cuda.CUDAGraph.capture_begin

    def counted(*args: Any, **kwargs: Any) -> None:
        captures.append(None)
        begin(*args, **kwargs)

    with patch.object(torch.cuda.CUDAGraph, "capture_begin", counted):
        for size in range(1, 11):
            scaled(torch.ones(size, device="cuda"))
    return not captures


@_claim("P7", "works inside somebody else's capture")
def _inside_a_capture(compile: Compile) -> bool:
    scaled = compile(lambda x: torch.relu(x) * 2)
    x = torch.ones(4, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        scaled(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        result = scaled(x)
    x.fill_(3.0)
    graph.replay()
    torch.cuda.synchronize()
    return bool(result.tolist() == [6.0] * 4)


def try_all(device: str) -> list[Row]:
    """Tries each claim with each peer, on a device of its own where that is emulated: a broken one spoils the rest.

    Raises:
        CheckError: there is no such device.
    """
    return [
        Row(promise, claim, {peer: _try(trial, peer, device) for peer in PEERS})
        for claim, (promise, trial) in TRIALS.items()
    ]


def _try(trial: Trial, peer: str, device: str) -> str:
    with open_device(device):
        try:
            return "yes" if trial(partial(compile_callable, peer)) else "no"
        except Exception as error:
            return type(error).__name__


def render_markdown(rows: Sequence[Row]) -> str:
    """The rows as a table of Markdown."""
    lines = ["| what was tried | Thunder | its own graphs | cgverify |", "|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row.promise}: {row.claim} | {' | '.join(row.held[peer] for peer in PEERS)} |")
    return "\n".join(lines)


def print_rows(rows: Sequence[Row]) -> None:
    """The rows as a table for people."""
    table = Table(pad_edge=False)
    table.add_column("")
    table.add_column("what was tried", overflow="fold")
    for heading in ("Thunder", "its own graphs", "cgverify"):
        table.add_column(heading)
    for row in rows:
        table.add_row(row.promise, row.claim, *(row.held[peer] for peer in PEERS))
    Console(highlight=False).print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tries all; 0 if cgverify keeps every promise, 1 if not, 2 if it cannot run here."""
    parser = argparse.ArgumentParser(prog="python -m cgverify.recipes.promises", description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", choices=("auto", "emulated", "cuda"), help="where tensors live")
    parser.add_argument(
        "--format", default="text", choices=("text", "markdown", "json"), help="how the table is written"
    )
    options = parser.parse_args(arguments)
    try:
        with quiet():
            rows = try_all(options.device)
    except CheckError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.format == "json":
        print(json.dumps({"format": "cgverify-promises", "version": 1, "rows": [asdict(row) for row in rows]}))
    elif options.format == "markdown":
        print(render_markdown(rows))
    else:
        print_rows(rows)
    return 0 if all(row.held[CGVERIFY] == "yes" for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
