"""From a failing program to a script: it is found, shrinks to few operations, and the script reproduces it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from cgverify.fuzzing.findings import Effort, failure_key
from cgverify.fuzzing.oracles import check
from cgverify.fuzzing.outcome import Outcome
from cgverify.fuzzing.program import Call, Input, Program, Step, check_program, load_program
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.reduce import measure, reduce_program
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.session import Budget, Shard, derive_seed
from cgverify.fuzzing.targets import find_target
from tests.fuzzing.programs_by_name import PROGRAMS

import pytest

ROOT = Path(__file__).parents[2]


def run_shard(folder: Path, *, target: str, name: str, programs: int, campaign: str = "tests") -> Outcome:
    """What one shard finds."""
    # Without a limit in seconds: what is found does not depend on what else the machine does.
    effort = Effort(failures=5, per_invariant=2, attempts=250, seconds=None)
    shard = Shard(PROPERTIES[name], find_target(target), "emulated", folder, 0, campaign, effort=effort)
    return shard.run(Budget(programs))


@pytest.fixture(scope="module")
def thunder_failures(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """What sixty programs find in Thunder's own transform."""
    return run_shard(tmp_path_factory.mktemp("failures"), target="thunder", name="equivalence", programs=60)


def test_thunder_fails_small(thunder_failures: Outcome) -> None:
    """Sixty programs find at least three faults of Thunder's transform, each shrunk to at most four operations."""
    assert len(thunder_failures.failures) >= 3
    assert len({failure.invariant for failure in thunder_failures.failures}) >= 3
    for failure in thunder_failures.failures:
        program = load_program(Path(failure.script).with_suffix(".json"))
        assert len(program.steps) <= 4
        assert len(resolve_program(program).statements) <= 5
        assert failure.invariant in program.why


def _run_script(path: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, path], env=settings, capture_output=True, text=True, timeout=300, check=False
    )


def test_scripts_reproduce(thunder_failures: Outcome) -> None:
    """Scripts run by themselves, exit with 1 and name what is wrong; they import nothing of the fuzzer."""
    by_invariant = {failure.invariant: failure for failure in thunder_failures.failures}
    for failure in list(by_invariant.values())[:3]:
        text = Path(failure.script).read_text(encoding="utf-8")
        assert "cgverify.fuzzing" not in text
        done = _run_script(failure.script)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "REPRODUCED" in done.stdout


def test_script_of_a_right_transform(thunder_failures: Outcome, tmp_path: Path) -> None:
    """The same script with a transform that is right exits with 0."""
    failure = next(f for f in thunder_failures.failures if "thunder.jit(function" in Path(f.script).read_text("utf-8"))
    text = Path(failure.script).read_text(encoding="utf-8")
    script = tmp_path / "right.py"
    script.write_text(text.replace("thunder.transforms.cudagraph import", "cgverify import"), encoding="utf-8")
    done = _run_script(str(script))
    assert done.returncode == 0, done.stdout + done.stderr


def test_script_that_cannot_run_here(thunder_failures: Outcome, tmp_path: Path) -> None:
    """Without the packages it needs, a script exits with 2 and says why."""
    done = _run_script(thunder_failures.failures[0].script, PYTHONPATH=str(tmp_path))
    assert done.returncode in (1, 2)
    if done.returncode == 2:
        assert "cannot run here" in done.stdout


def test_nothing_is_overwritten(thunder_failures: Outcome) -> None:
    """Writing the same failure again leaves the files as they are; another content gets a name of its own."""
    from cgverify.fuzzing.reproducer import write_failure

    script = Path(thunder_failures.failures[0].script)
    program = load_program(script.with_suffix(".json"))
    text = script.read_text(encoding="utf-8")
    assert write_failure(script.parent, script.stem, program, text) == script
    other = write_failure(script.parent, script.stem, program, text + "# another account\n")
    assert other != script
    assert load_program(other.with_suffix(".json")) == program
    assert script.read_text(encoding="utf-8") == text


def test_same_campaign_same_programs(tmp_path: Path) -> None:
    """Two runs of a campaign draw the same programs; another shard and another campaign draw others."""
    one, two = (run_shard(tmp_path, target="cgverify", name="structure", programs=30) for _ in range(2))
    other = run_shard(tmp_path, target="cgverify", name="structure", programs=30, campaign="another")
    assert one.hashes == two.hashes != other.hashes
    assert derive_seed("gate", "eager", 1, 0) != derive_seed("gate", "eager", 2, 0)


@pytest.mark.parametrize("kept", [{}, {"autocast": "f16"}, {"thread": True, "quiet": True}])
def test_reduction_makes_calls_plain(kept: dict[str, Any]) -> None:
    """Of what is special about a call, only what the failure needs is left."""
    odd = Call((1,), quiet=True, thread=True, captured=True, autocast="f16")
    big = Program(inputs=PROGRAMS["double"].inputs, history=(odd, odd, odd))

    def fails(program: Program) -> bool:
        calls = [event for event in program.history if isinstance(event, Call)]
        return any(all(getattr(call, name) == value for name, value in kept.items()) for call in calls)

    small = reduce_program(big, fails)
    assert small.history == (Call((1,), **kept),)


def test_reduction_keeps_the_failure() -> None:
    """A reduced program fails as the original did, and no part of it can go."""
    target = find_target("thunder")
    big = PROGRAMS["write"]
    padded = Program(inputs=big.inputs * 2, steps=PROGRAMS["double"].steps * 3 + big.steps, outputs=(-1, -2, 0, None))

    def fails(program: Program) -> bool:
        return check(program, None, target, "emulated", eager=False).invariant == "lost-write"

    assert fails(padded)
    small = reduce_program(padded, fails)
    assert fails(small)
    assert measure(small) < measure(padded)
    assert (len(small.inputs), len(small.steps), len(small.history)) == (1, 1, 1)
    assert failure_key(small, "lost-write").startswith("lost-write-add")


def test_reduction_changes_an_alias_with_its_base() -> None:
    """An alias stays of its base's kind, so that the reduced program is one that could be drawn."""
    base = Input(shape=(2, 3), dtype="i64")
    big = Program(inputs=(base, Input(shape=(6,), dtype="i64", alias_of=0)), steps=(Step("add_", (0, 1)),))

    def fails(program: Program) -> bool:
        check_program(program)
        return len(program.inputs) == 2 and program.inputs[1].alias_of == 0 and bool(program.steps)

    assert reduce_program(big, fails).inputs == (
        Input(shape=(), values="integers"),
        Input(shape=(), values="integers", alias_of=0),
    )


def test_reduction_leaves_out_steps_that_need_each_other() -> None:
    """Two steps of which neither can go alone go together."""
    big = Program(inputs=PROGRAMS["double"].inputs, steps=(Step("exp", (0,)), Step("neg", (0,)), Step("relu", (0,))))

    def fails(program: Program) -> bool:
        ops = {step.op for step in program.steps}
        return ("exp" in ops) == ("neg" in ops) and "relu" in ops

    assert [step.op for step in reduce_program(big, fails).steps] == ["relu"]


@pytest.mark.parametrize(("one_fault", "last"), [(False, "read_and_reset"), (True, "zero_")])
def test_reduction_makes_ops_plain_where_there_is_one_fault(one_fault: bool, last: str) -> None:
    """A step that stands for four ops becomes the one of them that matters; but not one fault another."""
    steps = (Step("addcmul_", (0, 0, 0)), Step("read_and_reset", (0,)))
    big = Program(inputs=(Input(shape=(1,)),), steps=steps)

    def fails(program: Program) -> bool:
        return [step.op for step in program.steps][-1:] in (["read_and_reset"], ["zero_"])

    assert [step.op for step in reduce_program(big, fails, one_fault=one_fault).steps] == [last]
