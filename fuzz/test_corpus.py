"""Programs worth keeping are replayed whole, not sharded: each has its own history and says why it is kept."""

from __future__ import annotations

from pathlib import Path

from cgverify.fuzzing.invariants import BaseFault, Broken
from cgverify.fuzzing.program import ProgramError, load_program
from cgverify.fuzzing.shard_run import keep_executor
from cgverify.fuzzing.verdict import Verdict, assert_holds

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
    executor = keep_executor(request.config)
    has_traces = request.config.getoption("--cgverify-target") != "none"
    try:
        for name in (*["structure"] * has_traces, "eager", "end-to-end"):
            _assert_judged(executor.judge(name, program))
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
