"""The emulation gives the answers that an H200 gave."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cgverify.emulation import EmulatedCUDA
from tests.golden.probes import addresses, details, legality, semantics
from tests.golden.probes.snippets import SNIPPETS, VOCABULARY

import pytest
import torch

GOLDEN = Path(__file__).parents[2] / "golden"
SEMANTICS, LEGALITY, VOCABULARY_ANSWERS, DETAILS = (
    json.loads((GOLDEN / f"{kind}_h200_torch2.11.json").read_text())
    for kind in ("semantics", "legality", "vocabulary", "details")
)
RECORDED: dict[str, dict[str, Any]] = {
    "semantics": SEMANTICS["semantics"],
    "legality": LEGALITY,
    "vocabulary": VOCABULARY_ANSWERS,
    "details": DETAILS,
}
TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])

# Where the emulation differs, with the reason.
DIFFERENT = {
    ("legality", "eigh"): "cuSOLVER reports the forbidden call with a text of its own before CUDA does",
    ("legality", "qr"): "an earlier error in cuSOLVER made the GPU refuse the eager call; both allow it in a capture",
    ("vocabulary", "unravel_index"): "its Python code makes a host tensor where the function mode is off",
    ("vocabulary", "to_sparse"): "sparse layouts are not emulated; both forbid it in a capture",
    ("vocabulary", "backward prod"): "C++ takes another way under a dispatch mode, one that does not look for zeros",
    ("vocabulary", "backward prod_dim"): "as for prod",
    ("details", "begin_in_capture"): "the GPU's process aborts; the emulation raises",
}
if TORCH < (2, 13):
    DIFFERENT["legality", "quantile"] = "C++ takes the tensor for a CPU one and checks the quantile on the host"
if TORCH >= (2, 14):
    DIFFERENT["legality", "combinations"] = "torch 2.14 uses nonzero_static, which a capture allows"


@dataclass(frozen=True)
class Answers:
    """What the emulation answers to every probe."""

    by_kind: dict[str, dict[str, Any]]
    addresses: list[list[tuple[int, int]]]
    unjudged_ops: set[str]


@pytest.fixture(scope="module")
def answers() -> Answers:
    with warnings.catch_warnings(), EmulatedCUDA(capacity=4 << 30) as cuda:
        warnings.simplefilter("ignore")  # empty captures, and torch's advice on some snippets
        found = {
            "semantics": semantics.answers(),
            "legality": legality.answers(SNIPPETS),
            "vocabulary": legality.answers(VOCABULARY),
            "details": {name: details.answer(name) for name in details.PROBES},
        }
        return Answers(json.loads(json.dumps(found)), addresses.answers(), cuda.unjudged_ops)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in RECORDED for name in RECORDED[kind]])
def test_answer(kind: str, name: str, answers: Answers) -> None:
    """The answer is the GPU's, and where a difference is listed there is one."""
    is_equal = answers.by_kind[kind][name] == RECORDED[kind][name]
    assert is_equal == ((kind, name) not in DIFFERENT), f"{answers.by_kind[kind][name]}, GPU: {RECORDED[kind][name]}"


def test_addresses(answers: Answers) -> None:
    """Every one of 2,720 allocations falls on the segment and offset that the GPU's allocator chose."""
    expected = [[tuple(place) for place in program] for program in SEMANTICS["addresses"]]
    assert answers.addresses == expected
    assert sum(map(len, expected)) == 2720


def test_every_recorded_question_is_asked() -> None:
    """Probes and recorded answers name the same questions."""
    asked = {
        "semantics": set(semantics.PROBES),
        "legality": set(SNIPPETS),
        "vocabulary": set(VOCABULARY),
        "details": set(details.PROBES),
    }
    assert {kind: set(recorded) for kind, recorded in RECORDED.items()} == asked


def test_listed_differences_are_few() -> None:
    """The emulation agrees on at least 157 of 160 legality snippets, and on 98 in 100 of all questions."""
    assert sum(kind == "legality" for kind, _ in DIFFERENT) <= 3
    assert len(DIFFERENT) <= 0.02 * sum(map(len, RECORDED.values()))


def test_judged_ops_cover_the_probes(answers: Answers) -> None:
    """The table of judged ops names every op that the probes capture."""
    assert answers.unjudged_ops == set()
