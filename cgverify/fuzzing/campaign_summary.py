"""What a campaign prints: rates, verdicts, failures with their scripts; and the files it leaves for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cgverify.fuzzing.campaign import Found, Merged, Unit
from cgverify.fuzzing.campaign_folder import write_whole
from cgverify.fuzzing.summary import find_vacuity, render_summary

import msgspec

MERGED = "merged.json"

MAX_NAMED = 20
"""Shards that a line names."""


def write_merged(merged: Merged, folder: Path) -> None:
    """Write `merged.json`, and a script and a program for each failure, into a campaign's folder."""
    write_whole(folder / MERGED, msgspec.json.format(msgspec.json.encode(merged), indent=1))
    for found in merged.totals.failures:
        script = _script(folder, found)
        write_whole(script, found.script.encode())
        write_whole(script.with_suffix(".json"), found.program.encode())


def render_merged(merged: Merged, folder: Path) -> Iterator[str]:
    """Yield the lines: how far it is, what it ran, how fast, what was found."""
    campaign, totals = merged.campaign, merged.totals
    done, whole = totals.parts
    devices = merged.devices or (campaign.device,)
    yield (
        f"campaign {campaign.name} ({campaign.id}): target {campaign.target} on {', '.join(devices)}; "
        f"{done} of {whole} parts, {totals.programs} of {campaign.programs} programs"
    )
    yield from (f"with {', '.join(f'{name} {found}' for name, found in entry.items())}" for entry in merged.versions)
    if merged.samples:
        seconds = max(s.begun + s.seconds for s in merged.samples) - merged.samples[0].begun
        yield f"{totals.programs / max(seconds, 1e-9):.1f} programs a second over {seconds:.0f} s"
    outcomes = list(_outcomes(merged, folder))
    yield from render_summary(outcomes, graphs=campaign.target != "none")
    yield from (f"FAILED: two runs of {unit} disagree; something is not deterministic" for unit in totals.conflicts)


def describe_gaps(gaps: Sequence[Unit]) -> str:
    """Return parts that are missing in a few words: how many of which shards."""
    shards = sorted({unit.shard for unit in gaps})
    named = ", ".join(map(str, shards[:MAX_NAMED])) + (", ..." if len(shards) > MAX_NAMED else "")
    part, shard = "part" if len(gaps) == 1 else "parts", "shard" if len(shards) == 1 else "shards"
    return f"{len(gaps)} {part}, of {shard} {named}"


def has_failed(merged: Merged) -> bool:
    """Whether a program fails, two runs of a part disagree, or too little happened to prove anything."""
    statuses = merged.totals.statuses.items()
    outcomes = [{"property": name, "programs": counts["programs"], "statuses": counts} for name, counts in statuses]
    vacuous = find_vacuity(outcomes, graphs=merged.campaign.target != "none")
    return bool(merged.totals.failures or merged.totals.conflicts or vacuous)


def _outcomes(merged: Merged, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield one outcome for each property, as shards of a fuzz run leave it; the first has what all share."""
    shared: dict[str, Any] = {
        "failures": [_failure(found, folder) for found in merged.totals.failures],
        "base_faults": list(merged.totals.base_faults),
        "recovered": [msgspec.to_builtins(entry) for entry in merged.recovered],
        "hashes": merged.totals.hashes,
    }
    for name, statuses in merged.totals.statuses.items():
        seconds = sum(sample.seconds for sample in merged.samples if sample.unit.property == name)
        plain = {"property": name, "programs": statuses["programs"], "seconds": seconds, "statuses": statuses}
        yield {**plain, **shared}
        shared = {"failures": [], "base_faults": [], "recovered": [], "hashes": ""}


def _failure(found: Found, folder: Path) -> dict[str, Any]:
    return {
        "key": found.key,
        "invariant": found.invariant,
        "kinds": list(found.kinds),
        "script": str(_script(folder, found)),
    }


def _script(folder: Path, found: Found) -> Path:
    return folder / "failures" / f"{found.key}.py"
