"""What a run of the fuzz targets prints at its end, and whether enough happened in it to prove anything.

It works on outcomes as plain data (see :mod:`cgverify.fuzzing.outcome`), which is how they come from other processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from cgverify.fuzzing.hashes import add_hashes
from cgverify.wording import counted

FLOORS = {"captured": 0.4, "finite": 0.85, "mutated": 0.12, "regions>=2": 0.03, "aliased": 0.01}
"""Least share of judged programs that must do each of these, or the run proves little and fails.

About half, or in the second case somewhat less, of what programs usually do: 86 %, 96 %, 46 % and 10 % of those built
directly.
"""

MAX_INCOMPARABLE = 0.2
"""Largest share of programs about which nothing can be said."""

STATIC = ("mutated", "finite")
"""What a property that runs nothing cannot tell."""

GRAPHED = ("captured", "regions>=2")
"""What cannot happen without a transform."""

SHOWN = 4
"""Scripts that the summary names for each invariant, smallest programs first; the others lie beside them."""

ENOUGH = 200
"""Programs of one property from which the shares are judged."""


def render_summary(outcomes: list[dict[str, Any]], *, graphs: bool) -> Iterator[str]:
    """Yield the lines: rates, base faults, vacuity, distinct failures.

    Args:
        outcomes: what shards did.
        graphs: whether there was a transform that should have captured something.
    """
    for name in dict.fromkeys(outcome["property"] for outcome in outcomes):
        yield _summary_line(name, [outcome for outcome in outcomes if outcome["property"] == name])
    yield from _recovered_lines(outcomes)
    faults = [text for outcome in outcomes for text in outcome["base_faults"]]
    if faults:
        count = sum(outcome["statuses"].get("base fault", 0) for outcome in outcomes)
        yield f"{count} base faults (Thunder without graphs differs from eager; not the target's doing), such as:"
        for text in faults[:2]:
            yield "  " + text.rstrip().replace("\n", "\n  ")
    for line in find_vacuity(outcomes, graphs=graphs):
        yield f"FAILED: {line}"
    hashes = add_hashes(outcome.get("hashes", "") for outcome in outcomes)
    yield f"the set of programs has the hash {hashes}"
    failures = {failure["key"]: failure for outcome in outcomes for failure in outcome["failures"]}
    yield f"distinct failures: {len(failures)}"
    for name, group in groupby(sorted(failures.values(), key=_by_size), key=lambda failure: failure["invariant"]):
        alike = list(group)
        yield f"  {name}: {len(alike)}"
        yield from (f"    python {failure['script']}" for failure in alike[:SHOWN])


def _recovered_lines(outcomes: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what came of the examples that were running when something died."""
    recovered = [entry for outcome in outcomes for entry in outcome.get("recovered", ())]
    for cause, what in (("process", "their process ended"), ("child", "their child ended, and a fresh one survives")):
        alike = [entry for entry in recovered if entry["cause"] == cause]
        if alike:
            counts = Counter(entry["status"] for entry in alike)
            verdicts = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
            yield f"{len(alike)} examples were running when {what}; run again: {verdicts}"
        for entry in alike[:SHOWN]:
            if entry["status"] == "fail":
                yield f"  {entry['evidence']}\n  " + entry["source"].rstrip().replace("\n", "\n  ")


def _by_size(failure: dict[str, Any]) -> tuple[str, int, str]:
    return failure["invariant"], len(failure["kinds"]), failure["key"]


def find_vacuity(outcomes: list[dict[str, Any]], *, graphs: bool = True) -> list[str]:
    """Return what happened too rarely, one line each, over the properties that ran enough programs.

    Args:
        outcomes: what shards did, as plain data (see Outcome).
        graphs: whether there was a transform that should have captured something.
    """
    lines = []
    names = dict.fromkeys(outcome["property"] for outcome in outcomes)
    for name in names if graphs else [name for name in names if name != "structure"]:
        counts, programs = _add_up([outcome for outcome in outcomes if outcome["property"] == name])
        if programs < ENOUGH or counts["fail"]:
            continue
        judged = programs - counts["incomparable"]
        if counts["incomparable"] > MAX_INCOMPARABLE * programs:
            lines.append(f"{name}: {counts['incomparable']} of {programs} programs are incomparable")
        idle = STATIC if name == "structure" else () if graphs else GRAPHED
        floors = {what: least for what, least in FLOORS.items() if what not in idle}
        lines += [
            f"{name}: only {counts[what]} of {judged} judged programs are {what}; at least {least:.0%} should be"
            for what, least in floors.items()
            if counts[what] < least * judged
        ]
    return lines


def _add_up(outcomes: list[dict[str, Any]]) -> tuple[Counter[str], int]:
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome["statuses"])
    return counts, sum(outcome["programs"] for outcome in outcomes)


def _summary_line(name: str, outcomes: list[dict[str, Any]]) -> str:
    counts, programs = _add_up(outcomes)
    seconds = sum(outcome["seconds"] for outcome in outcomes)
    shares = ", ".join(f"{what} {100 * counts[what] / max(programs, 1):.0f} %" for what in FLOORS)
    marks = sorted(key for key in counts if key.startswith(("tier ", "eager ")))
    tiers = ", ".join(f"{mark} {counts[mark]}" for mark in marks)
    rate = programs / seconds if seconds else 0.0
    verdicts = f"{counts['ok']} ok, {counts['fail']} fail, {counts['incomparable']} incomparable"
    return f"{name}: {counted(programs, 'program')}, {rate:.1f} a second and core; {verdicts}; {shares}; {tiers}"
