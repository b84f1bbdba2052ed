"""Programs worth keeping are replayed whole, not sharded: each has its own history and says why it is kept."""

from __future__ import annotations

from pathlib import Path

from cgverify.fuzzing.devices import choose_device
from cgverify.fuzzing.invariants import Broken
from cgverify.fuzzing.oracles import assert_holds, check, check_structure
from cgverify.fuzzing.program import ProgramError, load_program
from cgverify.fuzzing.targets import find_target

import pytest

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus(path: Path, request: pytest.FixtureRequest) -> None:
    """Every kept program holds every invariant, built directly and through thunder.jit."""
    try:
        program = load_program(path)
    except ProgramError as error:
        pytest.fail(f"corrupt corpus file: {error}", pytrace=False)
    target = find_target(request.config.getoption("--cgverify-target"))
    device = choose_device(request.config.getoption("--cgverify-device"))
    try:
        assert_holds(check_structure(program, target))
        assert_holds(check(program, None, target, device))
        assert_holds(check(program, None, target, device, path="jit"))
    except Broken as error:
        pytest.fail(f"{error}\nkept because: {program.why}\nreproduce: cgverify reproduce {path}", pytrace=False)
