"""Totals of a run as properties of its JUnit file, for whoever reads that: ``pytest fuzz/ --junitxml FILE``.

Each shard's whole outcome lies beside them, as the property `cgverify-outcome` of its test case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from _pytest.junitxml import xml_key  # what pytest's own fixture goes through; there is no public way from a hook


def compute_totals(outcomes: list[dict[str, Any]], *, target: str, device: str, campaign: str) -> dict[str, str]:
    """Return the properties: who was tested where, programs, verdicts, distinct failures, tiers.

    Args:
        outcomes: what shards did, as plain data (see Outcome).
        target: the transform under test.
        device: `cuda` or `emulated`.
        campaign: the name that fixes the programs.
    """
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome["statuses"])
    failures = {failure["key"] for outcome in outcomes for failure in outcome["failures"]}
    tiers = {name: counts[name] for name in sorted(counts) if name.startswith(("tier ", "eager "))}
    totals: Mapping[str, Any] = {
        "target": target,
        "device": device,
        "campaign": campaign,
        "programs": sum(outcome["programs"] for outcome in outcomes),
        **{status: counts[status] for status in ("ok", "fail", "incomparable")},
        "distinct failures": len(failures),
        **tiers,
    }
    return {f"cgverify-{name}".replace(" ", "-"): str(value) for name, value in totals.items()}


def record_totals(config: pytest.Config, totals: Mapping[str, str]) -> None:
    """Add the properties to the test suite of the JUnit file, if one is written."""
    xml = config.stash.get(xml_key, None)
    if xml is not None:
        for name, value in totals.items():
            xml.add_global_property(name, value)
