"""Draws programs outside a test: so many of them, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Callable

from cgverify.fuzzing.program import Program
from cgverify.fuzzing.strategies import programs

import hypothesis
from hypothesis import HealthCheck, Phase


def for_each_program(act: Callable[[Program], None], number: int, seed: int, *, gradients: bool = False) -> None:
    """Calls `act` with this many programs without histories.

    Args:
        act: called with each program; what it raises ends the drawing.
        number: of programs.
        seed: chooses them.
        gradients: whether inputs may require gradients.
    """
    settings = hypothesis.settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    draw = hypothesis.given(programs(gradients=gradients, history=False))
    hypothesis.seed(seed)(settings(draw(act)))()
