"""Programs worth keeping are replayed whole, not sharded: each has its own history and says why it is kept."""

from __future__ import annotations

from pathlib import Path

from cgverify.fuzzing.devices import choose_device
from cgverify.fuzzing.invariants import BaseFault, Broken
from cgverify.fuzzing.oracles import Verdict, assert_holds, check, check_structure
from cgverify.fuzzing.program import ProgramError, load_program
from cgverify.fuzzing.targets import find_target

import pytest

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))

BASE_FAULTS = {
    "A04_shared_later": "Thunder orders reads and writes of inputs that overlap in part otherwise than eager PyTorch",
    "A04_shifted_inputs": "Thunder writes inputs that overlap in part otherwise than eager PyTorch",
}
"""Programs on which Thunder without graphs is known to differ from eager PyTorch, and how."""


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus(path: Path, request: pytest.FixtureRequest) -> None:
    """Every kept program holds every invariant, built directly and through thunder.jit, and can be judged."""
    try:
        program = load_program(path)
    except ProgramError as error:
        pytest.skip(f"corrupt corpus file: {error}")
    target = find_target(request.config.getoption("--cgverify-target"))
    device = choose_device(request.config.getoption("--cgverify-device"))
    try:
        if target.make is not None:
            _assert_judged(check_structure(program, target))
        _assert_judged(check(program, None, target, device))
        _assert_judged(check(program, None, target, device, path="jit"))
    except BaseFault as error:
        if path.stem in BASE_FAULTS:
            pytest.xfail(f"{BASE_FAULTS[path.stem]}: {error}")
        pytest.fail(f"{error}\nkept because: {program.why}", pytrace=False)
    except Broken as error:
        pytest.fail(f"{error}\nkept because: {program.why}\nreproduce: cgverify reproduce {path}", pytrace=False)


def _assert_judged(verdict: Verdict) -> None:
    """A program that nobody can judge any more is kept in vain, and that has to be seen."""
    assert_holds(verdict)
    if verdict.status == "incomparable":
        pytest.fail(f"nothing can be said of this program any more: {verdict.evidence}", pytrace=False)
