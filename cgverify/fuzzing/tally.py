"""Counts what the programs of a shard turned out to do."""

from __future__ import annotations

from collections import Counter

from cgverify.fuzzing.program import Program
from cgverify.fuzzing.verdict import Verdict


def count_verdict(counts: Counter[str], program: Program, verdict: Verdict) -> None:
    """Add one program: its verdict, what judged it, and what it did."""
    facts = verdict.facts
    counts[verdict.status] += 1
    counts[f"tier {verdict.tier}"] += 1
    if facts.base_tier:
        counts[f"eager {facts.base_tier}"] += 1
    counts["captured"] += facts.regions > 0 and facts.replays != 0
    counts["regions>=2"] += facts.regions > 1
    counts["mutated"] += facts.mutated
    counts["finite"] += facts.finite
    counts["aliased"] += any(entry.alias_of is not None for entry in program.inputs)
    if verdict.status == "incomparable":
        reason = verdict.evidence.split(":")[0][:80]
        counts[f"incomparable: {reason}"] += 1
    counts["base fault"] += bool(facts.base_fault)
