"""What is claimed of every program: how to draw programs for each claim, and how to judge one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cgverify.fuzzing.devices import DeviceName
from cgverify.fuzzing.oracles import Verdict, check, check_structure
from cgverify.fuzzing.program import Program
from cgverify.fuzzing.sides import Path
from cgverify.fuzzing.strategies import programs
from cgverify.fuzzing.targets import Target
from cgverify.fuzzing.tracing import Form

from hypothesis.strategies import SearchStrategy


@dataclass(frozen=True, slots=True)
class Property:
    """One claim about every program: how to draw programs for it, and how to judge one.

    Attributes:
        name: `structure`, `equivalence`, `gradients`, `eager` or `end-to-end`.
        draw: the strategy.
        judge: the verdict on a program, a target and a device.
        reproduce: how the failure is run in a reproducer: `direct` or `jit`.
    """

    name: str
    draw: Callable[[], SearchStrategy[Program]]
    judge: Callable[[Program, Target, DeviceName], Verdict]
    reproduce: Path


def choose_form(program: Program) -> Form:
    """Alternate between the two forms of RETURN, as a function of the program alone."""
    return "tuple" if len(program.outputs) % 2 else "dict"


PROPERTIES = {
    entry.name: entry
    for entry in (
        Property("structure", programs, lambda p, t, d: check_structure(p, t, form=choose_form(p)), "direct"),
        Property(
            "equivalence", programs, lambda p, t, d: check(p, None, t, d, form=choose_form(p), eager=False), "direct"
        ),
        Property("eager", programs, lambda p, t, d: check(p, None, t, d, form=choose_form(p)), "direct"),
        Property(
            "gradients",
            lambda: programs(gradients=True),
            lambda p, t, d: check(p, None, t, d, path="jit", eager=False),
            "jit",
        ),
        Property(
            "end-to-end", lambda: programs(gradients=True), lambda p, t, d: check(p, None, t, d, path="jit"), "jit"
        ),
    )
}
