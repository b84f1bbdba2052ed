"""Mutants: transforms and runtimes with one planted fault each, to score the verifier and the fuzzer by.

Each mutant is cgverify's own transform with one decision turned wrong, as a Thunder `Transform` that can be put under
test like any other (`--cgverify-target cgverify.fuzzing.mutants:StaleInput`). Its verifier is off, so that the fault
gets as far as it can. A *static* fault shows in the emitted trace and carries the code by which the verifier must
reject it; an *emulated* one shows when the calls are made on the emulation as on a GPU; a *gpu* one needs real hardware
to show. Each says which kinds of docs/faults.md it stands for.

Faults are planted by replacing names in the transform's and the runtime's modules while the mutant is at work: during
the rewrite, or during each call of a region. One module a theme; `MUTANTS` lists all of them.
"""

from __future__ import annotations

from cgverify.fuzzing.mutants import (  # noqa: F401  (each registers its mutants)
    aliasing,
    capturing,
    copying,
    drawing,
    emitting,
    failing,
    ordering,
    racing,
    reusing,
    scalars,
    training,
)
from cgverify.fuzzing.mutants.base import MUTANTS, Mutant, Shows

__all__ = ["MUTANTS", "Mutant", "Shows"]


def __getattr__(name: str) -> type[Mutant]:
    """Give each mutant by its name, as a target is looked up."""
    for mutant in MUTANTS:
        if mutant.__name__ == name:
            return mutant
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: there is no such mutant")
