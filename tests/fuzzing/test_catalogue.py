"""What the fuzzer can express of the catalogue: every kind of fault and every sequence of calls is accounted for."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import get_args

from cgverify.fuzzing.catalogue import EXPRESSIBLE, OUT_OF_REACH, SEQUENCES
from cgverify.fuzzing.histories import histories
from cgverify.fuzzing.program import Event, History, Program, load_program
from tests.fuzzing import test_histories

import pytest
from hypothesis import given, seed, settings

ROOT = Path(__file__).parents[2]
CORPUS = sorted((ROOT / "fuzz" / "corpus").glob("*.json"))


@lru_cache(maxsize=1)
def kept() -> dict[str, Program]:
    """The programs of the corpus by name."""
    return {path.stem: load_program(path) for path in CORPUS}


def test_every_kind_is_accounted_for() -> None:
    """The kinds that can be expressed and those that cannot are together the kinds of docs/faults.md."""
    documented = set(re.findall(r"^\| ([A-Z]\d\d) ", (ROOT / "docs" / "faults.md").read_text("utf-8"), re.MULTILINE))
    assert not EXPRESSIBLE & OUT_OF_REACH.keys()
    assert documented == EXPRESSIBLE | OUT_OF_REACH.keys()


def test_a_program_is_kept_for_every_kind() -> None:
    """The corpus has a program for each kind that can be expressed, whose name and reason begin with the id."""
    assert len(CORPUS) >= 60
    assert {name[:3] for name in kept()} == EXPRESSIBLE
    for name, program in kept().items():
        assert program.why.startswith(f"{name[:3]}: "), name
        assert (ROOT / "fuzz" / "corpus" / f"{name}.json").read_text("utf-8").count('"version": 2') == 1


@pytest.mark.parametrize("name", SEQUENCES)
def test_every_sequence_has_a_test(name: str) -> None:
    """The test that a sequence names exists, and makes the events that it names."""
    path, _, function = SEQUENCES[name].test.partition("::")
    assert f"def {function}(" in (ROOT / path).read_text("utf-8")
    if function == "test_sequence":
        made = {type(event) for event in test_histories.SEQUENCES[name]().history}
        assert made <= set(SEQUENCES[name].events) | {test_histories.Call, test_histories.Collect}


def test_every_event_is_drawn_and_belongs_to_a_sequence() -> None:
    """Each kind of event is drawn, and is what some sequence of the catalogue is made of."""
    drawn: set[type] = set()

    @given(history=histories(training=True))
    @seed(5)
    @settings(max_examples=300, deadline=None, database=None)
    def draw(history: History) -> None:
        drawn.update(map(type, history))

    draw()
    assert drawn == set(get_args(Event))
    assert drawn == {kind for sequence in SEQUENCES.values() for kind in sequence.events}
