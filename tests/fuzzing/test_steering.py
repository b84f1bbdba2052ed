"""Steering: what is reported of a program, and that a search for regions and aliases finds more of them."""

from __future__ import annotations

from pathlib import Path

from cgverify.fuzzing.program import Input, Program, Step
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.session import Budget, Shard
from cgverify.fuzzing.steering import count_aliases
from cgverify.fuzzing.targets import find_target


def test_aliases() -> None:
    """An input, two views of it and a copy: three values share memory."""
    program = Program(
        inputs=(Input(shape=(2, 3)),), steps=(Step("select", (0,)), Step("transpose", (0,)), Step("neg", (0,)))
    )
    assert count_aliases(resolve_program(program)) == 3
    assert count_aliases(resolve_program(Program(inputs=()))) == 0


def test_a_search_draws_other_programs_and_judges_each(tmp_path: Path) -> None:
    """With the search on, as many programs are judged, and they are not the ones drawn without it."""
    outcomes = []
    for searching in (False, True):
        shard = Shard(PROPERTIES["structure"], find_target("cgverify"), "emulated", tmp_path, 0, "steering")
        shard.searching = searching
        outcomes.append(shard.run(Budget(60)))
    plain, searched = outcomes
    assert plain.programs == searched.programs == 60
    assert plain.statuses["ok"] + plain.statuses.get("incomparable", 0) == 60
    assert plain.hashes != searched.hashes
