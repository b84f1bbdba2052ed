"""Thunder's own CUDAGraphTransform, unmodified, behaves on the emulation as it did on an H200."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cgverify.emulation import EmulatedCUDA, UseAfterFree
from tests.golden.probes import thunder_scenarios

import pytest

GOLDEN = Path(__file__).parents[1] / "golden" / "thunder_faults_h200_torch2.11.json"
RECORDED = json.loads(GOLDEN.read_text())["n"]


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    with EmulatedCUDA():
        return thunder_scenarios.answers()


@pytest.mark.parametrize("name", RECORDED)
def test_scenario(name: str, answers: dict[str, Any]) -> None:
    """The scenario shows what it showed on the GPU, in one process with those before it."""
    assert answers[name] == RECORDED[name]


def test_strict_names_the_freed_parameter() -> None:
    """With strict=True the replay on a freed parameter raises instead of reading another tensor's values."""
    with EmulatedCUDA(strict=True), pytest.raises(UseAfterFree, match="freed after the capture"):
        thunder_scenarios.SCENARIOS["b7b_parameter_storage_freed_and_reused"]()
