"""Shows that values and shapes that change on every call cost no graph per value, and no memory.

```
python -m cgverify.bench.demonstrations [--device auto|emulated|cuda] [--values N] [--only NAME]
```

Each demonstration calls one function with a new value or shape each time, three times with each, compares every result
with the function itself, and counts captures, graphs alive and reserved memory. The exit code is 1 if a result differs,
if more graphs live than `max_graphs` allows, if reserved memory grew after the first eighth of the calls, or if a
value of `item` cost a capture.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cgverify.api import CUDAGraphTransform
from cgverify.bench.measure import free_memory
from cgverify.checking import open_device

import thunder
import torch

MAX_GRAPHS = 8
REPEATS = 3
"""Calls with each value: un-graphed, captured, replayed."""

SETTLED = 8
"""Reserved memory may grow during the first of so many parts of a demonstration, and until graphs are evicted."""

SLACK = 2 << 20
"""Bytes of one more block of the caching allocator's, which the last of some small tensors may need."""

Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One function, and the arguments of its calls.

    Attributes:
        name: what changes.
        function: takes the arguments and returns a tensor.
        arguments: makes those of one call from its number.
        cache: of `thunder.jit`.
        captures: how many captures it may take at most; None for one per value.
    """

    name: str
    function: Callable[..., torch.Tensor]
    arguments: Callable[[int], Arguments]
    cache: str
    captures: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a demonstration came to.

    Attributes:
        values: how many different values.
        wrong: calls whose result differed from the function's own.
        captures: graphs captured.
        graphs: most graphs alive after a call.
        grown: bytes by which reserved memory grew after the first part.
        faults: what is not as promised, empty if all is well.
    """

    values: int
    wrong: int
    captures: int
    graphs: int
    grown: int
    faults: tuple[str, ...] = ()


def scaled_by_item(x: torch.Tensor) -> torch.Tensor:
    """Two values of `item`, and work after them."""
    total, largest = (x * 2).sum().item(), x.amax().item()
    return (x * total - largest).sin()


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Work around a Python number."""
    return (x.sin() * factor).relu().cos()


def rows(count: int) -> torch.Tensor:
    """Four rows of numbers, told apart by `count`."""
    return torch.arange(4.0 * 64, device="cuda").reshape(4, 64) / 64 + count


def wider(count: int) -> torch.Tensor:
    """Rows whose width is told apart by `count`."""
    return torch.ones(4, 64 + count, device="cuda") / 3


DEMONSTRATIONS = (
    Demonstration("values of item", scaled_by_item, lambda k: (rows(k),), "constant values", captures=1),
    Demonstration("Python numbers, symbolic", scaled, lambda k: (rows(0), 0.5 + k), "symbolic values", captures=2),
    Demonstration("Python numbers", scaled, lambda k: (rows(0), 0.5 + k), "constant values"),
    Demonstration("shapes, symbolic", scaled, lambda k: (wider(k), 0.5), "symbolic values"),
    Demonstration("shapes", scaled, lambda k: (wider(k), 0.5), "constant values"),
)


def run_demonstration(demonstration: Demonstration, values: int) -> Outcome:
    """Makes the calls and counts."""
    transform = CUDAGraphTransform(max_graphs=MAX_GRAPHS)
    jitted = thunder.jit(demonstration.function, transforms=[transform], cache=demonstration.cache)
    wrong = graphs = 0
    settled = peak = 0
    for value in range(values):
        for _ in range(REPEATS):
            arguments = demonstration.arguments(value)
            wrong += not torch.equal(jitted(*arguments), demonstration.function(*arguments))
            graphs = max(graphs, transform.stats().graphs)
        peak = max(peak, int(torch.cuda.memory_reserved()))
        if value <= max(values // SETTLED, MAX_GRAPHS):
            settled = peak
    outcome = Outcome(values, wrong, transform.stats().captures, graphs, peak - settled)
    return replace(outcome, faults=tuple(_faults(outcome, demonstration.captures)))


def _faults(found: Outcome, most_captures: int | None) -> Iterator[str]:
    if found.wrong:
        yield f"{found.wrong} results differ"
    if found.graphs > MAX_GRAPHS:
        yield f"{found.graphs} graphs lived at once, and max_graphs is {MAX_GRAPHS}"
    if most_captures is not None and found.captures > most_captures:
        yield f"more than {most_captures} captures"
    if not found.captures:
        yield "nothing was captured"
    if found.grown > SLACK:
        yield f"reserved memory grew by more than {SLACK >> 20} MiB"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs every demonstration and prints a line for each: 1 if one of them is not as promised."""
    parser = argparse.ArgumentParser(prog="python -m cgverify.bench.demonstrations", description=__doc__)
    parser.add_argument("--device", choices=("auto", "emulated", "cuda"), default="auto")
    parser.add_argument("--values", type=int, default=200, help="different values of each (five times as many of item)")
    names = [demonstration.name for demonstration in DEMONSTRATIONS]
    parser.add_argument("--only", choices=names, help="one of them")
    chosen = parser.parse_args(arguments)
    failed = False
    with open_device(chosen.device) as device:
        print(f"on {device}, max_graphs={MAX_GRAPHS}, {REPEATS} calls with each value")
        for demonstration in DEMONSTRATIONS:
            if chosen.only not in (None, demonstration.name):
                continue
            free_memory()
            values = chosen.values * (5 if demonstration.captures == 1 else 1)
            outcome = run_demonstration(demonstration, values)
            failed |= bool(outcome.faults)
            verdict = "; ".join(outcome.faults) or "as promised"
            counts = f"{values} values, {outcome.captures} captures, at most {outcome.graphs} graphs alive"
            grown = f"reserved memory grew by {outcome.grown / 2**20:.1f} MiB"
            print(f"{demonstration.name}: {counts}, {grown}: {verdict}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
