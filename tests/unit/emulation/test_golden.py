"""The emulation gives the answers that an H200 gave."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgverify.emulation import EmulatedCUDA
from tests.golden.probes import addresses, legality, semantics

import pytest
import torch

GOLDEN = Path(__file__).parents[2] / "golden"
SEMANTICS = json.loads((GOLDEN / "semantics_h200_torch2.11.json").read_text())
LEGALITY = json.loads((GOLDEN / "legality_h200_torch2.11.json").read_text())

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
# Snippets on which the emulation differs, with the reason.
DIFFERENT_LEGALITY = {
    "eigh": "cuSOLVER reports the forbidden call with an error text of its own before CUDA does",
    **({"combinations": "torch 2.14 uses nonzero_static, which a capture allows"} if TORCH >= (2, 14) else {}),
    "qr": "the GPU refused the eager call because of an earlier error in cuSOLVER; in the capture both allow it",
}


@dataclass(frozen=True)
class Answers:
    """What the emulation answers to every probe."""

    semantics: dict[str, Any]
    addresses: list[list[tuple[int, int]]]
    legality: dict[str, list[str]]
    unjudged_ops: set[str]


@pytest.fixture(scope="module")
def answers() -> Answers:
    with warnings.catch_warnings(), EmulatedCUDA(capacity=4 << 30) as cuda:
        warnings.simplefilter("ignore")  # empty captures, and torch's advice on some snippets
        return Answers(semantics.answers(), addresses.answers(), legality.answers(), cuda.unjudged_ops)


@pytest.mark.parametrize("name", SEMANTICS["semantics"])
def test_semantics(name: str, answers: Answers) -> None:
    """What graphs remember, share, reuse and refuse is what the GPU showed."""
    assert answers.semantics[name] == SEMANTICS["semantics"][name]


def test_addresses(answers: Answers) -> None:
    """Every one of 2,720 allocations falls on the segment and offset that the GPU's allocator chose."""
    expected = [[tuple(place) for place in program] for program in SEMANTICS["addresses"]]
    assert answers.addresses == expected
    assert sum(map(len, expected)) == 2720


@pytest.mark.parametrize("name", [name for name in LEGALITY if name not in DIFFERENT_LEGALITY])
def test_legality(name: str, answers: Answers) -> None:
    """A capture allows and forbids what the GPU did, with the same errors."""
    assert answers.legality[name] == LEGALITY[name]


@pytest.mark.parametrize("name", DIFFERENT_LEGALITY)
def test_listed_differences_are_real(name: str, answers: Answers) -> None:
    """A snippet listed as different is different."""
    assert answers.legality[name] != LEGALITY[name]


def test_every_recorded_snippet_is_asked() -> None:
    """Probes and recorded answers name the same questions."""
    assert list(legality.SNIPPETS) == list(LEGALITY)
    assert set(semantics.PROBES) == set(SEMANTICS["semantics"])


def test_judged_ops_cover_the_probes(answers: Answers) -> None:
    """The table of judged ops names every op that the probes capture."""
    assert answers.unjudged_ops == set()
