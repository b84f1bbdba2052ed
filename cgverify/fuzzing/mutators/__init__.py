"""Mutators: each corrupts one thing in a valid rewrite and names the code that the verifier must find.

`apply(before, after)` returns a corrupted copy of `after`, or None where there is nothing of the kind to corrupt. The
first place that fits is taken, so a mutator is a function of the traces. Some judge a valid trace under the contract of
a runtime that it does not fit: those carry the contract. `MUTATORS` lists all; `catches` says whether the verifier did.
"""

from __future__ import annotations

from cgverify.fuzzing.mutators import capture, equivalence, memory, ordering, regions, structure
from cgverify.fuzzing.mutators.base import MUTATORS, Mutator

__all__ = ["MUTATORS", "Mutator", "capture", "equivalence", "memory", "ordering", "regions", "structure"]
