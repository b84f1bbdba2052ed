"""What the fuzzer can express of the catalogue: every kind of fault and every sequence of calls is accounted for."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import get_args

from cgverify.fuzzing.catalogue import EXPRESSIBLE, OUT_OF_REACH, SEQUENCES
from cgverify.fuzzing.histories import histories
from cgverify.fuzzing.mutants import MUTANTS, Mutant
from cgverify.fuzzing.oracles import check
from cgverify.fuzzing.program import Event, History, Program, load_program
from cgverify.fuzzing.targets import Target
from tests.fuzzing import test_histories

import pytest
from hypothesis import given, seed, settings

ROOT = Path(__file__).parents[2]
CORPUS = sorted((ROOT / "fuzz" / "corpus").glob("*.json"))


KILLS = {
    "A01_cache_rows": "LostWrite",
    "A01_cache_step": "DroppedWrite",
    "A01_every_write": "LostSecondWrite",
    "A01_write_to_input": "WrittenBackEarly",
    "A02_held_results": "SharedResult",
    "A03_parameter_replaced": "UnguardedStaticInput",
    "A03_storage_swapped": "UnguardedStaticInput",
    "A04_aliased_inputs": "IgnoredOverlap",
    "A04_shared_later": "SharedBuffers",
    "A04_shifted_inputs": "IgnoredOverlap",
    "A05_counted_once": "RepeatedWarmUp",
    "A05_running_statistics": "RepeatedWarmUp",
    "A06_same_arguments": "StaleInput",
    "A07_fed_back": "SharedResult",
    "A08_between_graphs": "EveryInputInPlace",
    "A11_returned_unchanged": "DetachedView",
    "A12_detached_result": "TrackedResults",
    "A12_results_share": "ViewFromTheStart",
    "A12_views_as_results": "DetachedView",
    "A16_changed_layout": "ContiguousBuffers",
    "A16_layouts": "ContiguousResults",
    "A17_expanded": "NaiveCopyIn",
    "B01_number_in_kernel": "ScalarOfAnyDtype",
    "B02_host_work": "FrozenResults",
    "B06_metadata": "StaleInput",
    "B07_to_host_and_back": "CapturedTransfer",
    "C01_retained_graph": "UncheckedLeases",
    "C01_trained": "SavedInPlace",
    "C01_two_forwards": "UncheckedLeases",
    "C03_old_graph_lent_memory": "OnlyOwnLeases",
    "C05_expanded_gradient": "StaleCotangent",
    "C06_one_result": "SkippedGradient",
    "C11_same_object": "ReusedResult",
    "D01_freed_memory": "UnguardedStaticInput",
    "D03_order_of_replays": "SharedResult",
    "E05_streams_in_turn": "CopiedTooLate",
    "F01_item_island": "CapturedItem",
    "F01_synchronising": "WaitsInCapture",
    "F06_inside_a_capture": "CaptureInsideCapture",
    "F08_no_tensor_inputs": "NeedsInputs",
    "G01_deleted_too_early": "DeletedBeforeReturn",
    "G01_sum_item_alone": "DeletedTwice",
    "G02_order_in_a_group": "ReversedBody",
    "G03_all_boundaries": "SwappedResults",
    "G06_islands": "LateBoundary",
    "G06_two_item_islands": "CrossedBarrier",
    "G07_merged_across_a_write": "WriteMovedPastRead",
    "G10_not_fixed": "EveryInputInPlace",
    "H01_other_entries": "UnguardedStrides",
    "R01_dropout": "StillGenerator",
    "R01_reseeded": "RestartedGenerator",
    "R03_order_of_draws": "ReorderedDraws",
    "R04_generator_position": "ExtraDraw",
}
"""Programs of the corpus and, for each, a planted fault that it is kept for."""


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
        assert re.match(rf"{name[:3]}(, [A-Z]\d\d)*: ", program.why), f"{name}: {program.why}"
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


@pytest.mark.parametrize("name", KILLS)
def test_a_kept_program_shows_the_fault_it_is_kept_for(name: str) -> None:
    """With the fault planted, the program fails; without it, `fuzz/test_corpus.py` has it pass."""
    mutant: type[Mutant] = next(mutant for mutant in MUTANTS if mutant.__name__ == KILLS[name])
    assert name[:3] in mutant.faults
    target = Target(mutant.__name__, "", "", mutant)
    assert check(kept()[name], None, target, "emulated", path=mutant.path, eager=False).status == "fail"
