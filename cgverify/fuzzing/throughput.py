"""Measures programs per second and core: static, emulated, and through thunder.jit, on the same programs.

Run it with `python -m cgverify.fuzzing.throughput [PROGRAMS] [TARGET]`. Both paths do the same work on each program:
make the trace, transform and prove it, check its structure; for the emulated rates, make the calls of a plain history
on both sides and compare. They differ in how the trace comes about.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from cgverify.fuzzing.oracles import check, check_structure
from cgverify.fuzzing.program import PLAIN_HISTORY, Program
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.strategies import programs
from cgverify.fuzzing.targets import Target, find_target

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy


def draw_programs(count: int, campaign: int = 0, strategy: SearchStrategy[Program] | None = None) -> list[Program]:
    """Return `count` programs, the same ones each time; without parameters and buffers where no strategy says more."""
    drawn: list[Program] = []

    @seed(campaign)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(program=programs(modules=False, history=False) if strategy is None else strategy)
    def collect(program: Program) -> None:
        drawn.append(program)

    collect()
    return drawn[:count]


def measure_rates(drawn: list[Program], target: Target) -> dict[str, float]:
    """Return programs per second of processor time for each of the four ways, by name."""
    ways: dict[str, Callable[[Program], object]] = {
        "static, direct": lambda program: check_structure(program, target),
        "static, thunder.jit": lambda program: check_structure(program, target, path="jit"),
        "emulated, direct": lambda program: check(program, PLAIN_HISTORY, target, "emulated", eager=False),
        "emulated, thunder.jit": lambda program: check(
            program, PLAIN_HISTORY, target, "emulated", path="jit", eager=False
        ),
    }
    rates = {}
    for name, way in ways.items():
        way(drawn[0])
        begun = time.process_time()
        for program in drawn:
            way(program)
        rates[name] = len(drawn) / (time.process_time() - begun)
    return rates


def main(arguments: list[str]) -> None:
    """Print the rates and their ratios."""
    torch.set_num_threads(1)
    drawn = draw_programs(int(arguments[0]) if arguments else 200)
    target = find_target(arguments[1] if len(arguments) > 1 else "cgverify")
    statements = sum(len(resolve_program(program).statements) for program in drawn) / len(drawn)
    print(f"{len(drawn)} programs of {statements:.1f} ops on average, target {target.name}, one core")
    rates = measure_rates(drawn, target)
    for name, rate in rates.items():
        print(f"{name:24}{rate:8.1f} programs a second")
    for kind in ("static", "emulated"):
        print(f"{kind}: direct is {rates[f'{kind}, direct'] / rates[f'{kind}, thunder.jit']:.1f} times thunder.jit")


if __name__ == "__main__":
    main(sys.argv[1:])
