"""Translation validation for Thunder traces: `verify(before, after)` proves a rewrite or names its faults.

Independent of the transform and the runtime that it judges: it reads the two traces and what a region's callable
executes, and derives its facts about ops from torch and Thunder. Start reading at `checker.py`, then `state.py`.
"""

from __future__ import annotations

from cgverify.verifier.checker import verify, verify_backward, verify_each_trace, verify_pair
from cgverify.verifier.rules import capture, equivalence, memory, ordering, structure

__all__ = [
    "capture",
    "equivalence",
    "memory",
    "ordering",
    "structure",
    "verify",
    "verify_backward",
    "verify_each_trace",
    "verify_pair",
]
