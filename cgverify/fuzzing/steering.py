"""Tells Hypothesis what a program turned out to do: events for its statistics, and scores that its search raises.

The scores steer only where the search phase is on, in runs whose programs are new each time: a search for many regions
may lead away from faults, so it never replaces plain drawing.
"""

from __future__ import annotations

from collections import Counter

from cgverify.fuzzing.program import Program
from cgverify.fuzzing.resolution import Resolved, resolve_program
from cgverify.fuzzing.values import TensorType
from cgverify.fuzzing.verdict import Verdict

from hypothesis import event, target


def count_aliases(resolved: Resolved) -> int:
    """Return how many values share memory with one another, at most."""
    storages = Counter(kind.storage for kind in resolved.types if isinstance(kind, TensorType))
    return max(storages.values(), default=0)


def steer(program: Program, verdict: Verdict) -> None:
    """Report a judged program; only inside a Hypothesis test."""
    regions, aliases = verdict.facts.regions, count_aliases(resolve_program(program))
    event("verdict", verdict.status)
    event("tier", verdict.tier)
    event("regions", str(min(regions, 5)))
    event("aliases", str(min(aliases, 8)))
    target(float(regions), label="regions")
    target(float(aliases), label="aliases")
