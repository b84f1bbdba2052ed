"""Adds up the parts of a campaign: a function of their set, whatever order they come in and however often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cgverify.fuzzing.campaign import (
    PART,
    Campaign,
    CampaignError,
    Found,
    Merged,
    Part,
    Sample,
    Totals,
    Unit,
)
from cgverify.fuzzing.coverage import Coverage
from cgverify.fuzzing.hashes import add_hashes
from cgverify.fuzzing.outcome import Recovered

import msgspec


def choose_parts(parts: Iterable[Part]) -> dict[Unit, Part]:
    """Return one part for each unit, the same whatever order they come in: the longest, then the least content."""
    chosen: dict[Unit, Part] = {}
    for part in parts:
        known = chosen.get(part.unit)
        if known is None or _rank(part) < _rank(known):
            chosen[part.unit] = part
    return dict(sorted(chosen.items()))


def merge_parts(campaign: Campaign, parts: Iterable[Part], recovered: Iterable[Recovered] = ()) -> Merged:
    """Add up parts: a function of their set.

    Args:
        campaign: what was to be run.
        parts: what was run.
        recovered: examples that were run again.

    Raises:
        CampaignError: a part belongs to another campaign.
    """
    every = list(parts)
    for part in every:
        if part.campaign != campaign.id:
            raise CampaignError(
                f"a part of campaign {part.campaign} lies among those of {campaign.id} ({campaign.name}); "
                "merge the folders of one campaign only"
            )
    chosen = choose_parts(every)
    samples = [
        Sample(
            begun=part.measured.begun,
            seconds=part.measured.seconds,
            programs=part.programs,
            failures=sum(part.met.values()),
            host=part.measured.host,
            unit=unit,
        )
        for unit, part in chosen.items()
    ]
    versions = {tuple(sorted(part.measured.versions.items())) for part in chosen.values()}
    return Merged(
        campaign=campaign,
        totals=_add_up(campaign, chosen, _find_conflicts(every)),
        samples=tuple(sorted(samples, key=lambda sample: (sample.begun, sample.unit))),
        versions=tuple(map(dict, sorted(versions))),
        devices=tuple(sorted({part.measured.device for part in chosen.values()})),
        recovered=tuple(recovered),
    )


def encode_part(part: Part) -> bytes:
    """Return the content of a part's file."""
    return msgspec.json.encode(part, order="sorted")


def _rank(part: Part) -> tuple[int, bytes]:
    return -part.programs, encode_part(part)


def _without_times(part: Part) -> bytes:
    return encode_part(msgspec.structs.replace(part, measured=None))


def _find_conflicts(parts: list[Part]) -> tuple[Unit, ...]:
    """Return the units of which two complete parts say different things."""
    said: dict[Unit, set[bytes]] = {}
    for part in parts:
        if not part.cut:
            said.setdefault(part.unit, set()).add(_without_times(part))
    return tuple(sorted(unit for unit, accounts in said.items() if len(accounts) > 1))


def _add_up(campaign: Campaign, chosen: dict[Unit, Part], conflicts: tuple[Unit, ...]) -> Totals:
    statuses: dict[str, Counter[str]] = {}
    met: Counter[str] = Counter()
    failures: dict[str, Found] = {}
    coverage = Coverage()
    for unit, part in chosen.items():
        statuses.setdefault(unit.property, Counter()).update({"programs": part.programs, **part.statuses})
        met.update(part.met)
        coverage = coverage.plus(part.coverage)
        for failure in part.failures:
            failures.setdefault(failure.key, failure)
    return Totals(
        programs=sum(part.programs for part in chosen.values()),
        hashes=add_hashes(part.hashes for part in chosen.values()),
        statuses={name: dict(sorted(counts.items())) for name, counts in sorted(statuses.items())},
        coverage=coverage,
        failures=tuple(failures[key] for key in sorted(failures)),
        met=dict(sorted(met.items())),
        base_faults=tuple(text for part in chosen.values() for text in part.base_faults)[:8],
        parts=(len(chosen), count_parts(campaign)),
        conflicts=conflicts,
    )


def count_parts(campaign: Campaign) -> int:
    """Return how many parts a campaign has, if time does not cut it short."""
    shares = (campaign.share(name, shard) for name in campaign.properties for shard in range(campaign.shards))
    return sum(-(-share // PART) for share in shares)
