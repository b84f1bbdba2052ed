"""The survey: every step of Thunder's pipeline over the corpus is proved, or is on the list of what is not, and why."""

from __future__ import annotations

import warnings

from cgverify.emulation import EmulatedCUDA
from cgverify.survey.corpus import CORPUS
from cgverify.survey.running import KNOWN_FAULTS, Surveyed, survey

import pytest

# entry -> pass that is not proved: the executor's kernel has no decomposition to compare with
OPEN = {"pooling": "Grad transform pass"}


@pytest.fixture(scope="module")
def surveyed() -> list[Surveyed]:
    """The whole corpus, surveyed once."""
    with EmulatedCUDA(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [survey(entry) for entry in CORPUS]


def test_everything_compiles(surveyed: list[Surveyed]) -> None:
    """Thunder compiles every entry, so that nothing is left out of the count."""
    assert [(found.name, found.failure) for found in surveyed if found.failure] == []
    assert len(surveyed) >= 30


def test_no_pass_is_called_wrong_but_the_known_ones(surveyed: list[Surveyed]) -> None:
    """A step is called wrong only where Thunder is: the entries of KNOWN_FAULTS, and every one of them."""
    assert {found.name for found in surveyed if not found.ok} == set(KNOWN_FAULTS)


def test_what_is_not_proved_is_listed(surveyed: list[Surveyed]) -> None:
    """Every other step is proved, but for those in OPEN."""
    found = {s.name: c.name for s in surveyed for c in s.passes if not c.proved and s.name not in KNOWN_FAULTS}
    assert found == OPEN
