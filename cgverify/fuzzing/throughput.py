"""Measures programs per second and core: static, emulated, and through thunder.jit, on the same programs.

Run it with `python -m cgverify.fuzzing.throughput [PROGRAMS]`. The two paths do the same work on each program: make the
trace, transform and prove it, check its structure; and, for the emulated rates, also make the calls of a plain history on
both sides and compare. They differ in how the trace comes about.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from cgverify.fuzzing.devices import open_device
from cgverify.fuzzing.oracles import check, check_structure
from cgverify.fuzzing.program import PLAIN_HISTORY, Program
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import forget_sources, jit_side
from cgverify.fuzzing.strategies import programs
from cgverify.fuzzing.structure import find_faults
from cgverify.fuzzing.targets import Target, find_target

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings


def draw_programs(count: int, campaign: int = 0) -> list[Program]:
    """Return programs without parameters and buffers, the same ones each time."""
    drawn: list[Program] = []

    @seed(campaign)
    @settings(
        max_examples=count, database=None, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck)
    )
    @given(program=programs(modules=False, history=False))
    def collect(program: Program) -> None:
        drawn.append(program)

    collect()
    return drawn[:count]


def measure_rates(drawn: list[Program], target: Target) -> dict[str, float]:
    """Return programs per second for each of the four ways, by name."""
    ways: dict[str, Callable[[Program], object]] = {
        "static, direct": lambda program: check_structure(program, target),
        "static, thunder.jit": lambda program: _check_jit_structure(program, target),
        "emulated, direct": lambda program: check(program, PLAIN_HISTORY, target, "emulated", eager=False),
        "emulated, thunder.jit": lambda program: check(
            program, PLAIN_HISTORY, target, "emulated", path="jit", eager=False
        ),
    }
    rates = {}
    for name, way in ways.items():
        way(drawn[0])
        begun = time.perf_counter()
        for program in drawn:
            way(program)
        rates[name] = len(drawn) / (time.perf_counter() - begun)
    return rates


def _check_jit_structure(program: Program, target: Target) -> None:
    """Make thunder.jit trace and transform a program, and check the structure of the result."""
    resolved = resolve_program(program)
    transform = target.make() if target.make else None
    with open_device("emulated"):
        side, traces = jit_side(resolved, transform)
        side_call, inputs = side(_inputs(program))
        side_call(*inputs)
        for trace in traces():
            find_faults(trace, trace)
    forget_sources()


def _inputs(program: Program) -> list[torch.Tensor]:
    from cgverify.fuzzing.arguments import make_inputs

    return make_inputs(program.inputs, [entry.seed for entry in program.inputs], [e.layout for e in program.inputs])
