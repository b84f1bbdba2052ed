"""Counting false alarms: the same for any number of processes, over every source of traces, and never blind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cgverify import alarms, cli, hunting, scoring
from cgverify.alarms import Alarms, _Judged, count_alarms, judge_batch
from cgverify.diagnostics import Diagnostic, Location, Report, Severity
from cgverify.fuzzing.program import decode_program
from cgverify.fuzzing.trial import Refused, build

import pytest


@pytest.fixture(scope="module")
def batch() -> Alarms:
    """A small batch, a third of it through `thunder.jit`."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(alarms, "SHARE", 3)
        return judge_batch(3, 0, 36)


def test_right_rewrites_raise_no_alarm(batch: Alarms) -> None:
    """No finding of any severity on right rewrites, from each source of traces."""
    assert batch.false == ()
    sources = {"built directly", "jitted forward", "jitted backward", "fused forward", "fused backward"}
    assert sources <= set(batch.kinds)
    assert sum(batch.kinds[source] for source in sources) == batch.pairs


def test_kinds_are_counted(batch: Alarms) -> None:
    """Rewrites with writes, views, random draws and host syncs are among them, and are told in the summary."""
    assert {"writes", "views", "random draws", "the host waits"} <= set(batch.kinds)
    assert batch.render().splitlines()[-1] == f"0 alarms on {batch.pairs} right rewrites"


def test_alarms_name_their_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verifier that cries wolf is seen, with the program that made it."""
    wolf = Diagnostic("CG504", "unproved", Severity.WARNING, "wolf", Location("computation"))
    monkeypatch.setattr(alarms, "verify", lambda before, after: Report("computation", (wolf,)))
    found = count_alarms(6)
    assert found.false[0].startswith("CG504 (built directly): {")
    assert found.render().startswith("false alarm  CG504 (built directly): {")


def test_batches_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are judged in order until enough pairs were, and the counts so far are told after each."""
    asked: list[int] = []

    def judge(seed: int, number: int, size: int) -> Alarms:
        asked.append(number)
        return Alarms(alarms.Counter({"all": 4}))

    monkeypatch.setattr(alarms, "judge_batch", judge)
    told: list[int] = []
    assert count_alarms(10, tell=lambda so_far: told.append(so_far.pairs)).pairs == 12
    assert (asked, told) == ([0, 1, 2], [4, 8, 12])
    assert count_alarms(0).pairs == 0


def test_the_command_runs_the_verifiers_part_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mutants --stage verifier` plants faults in traces, judges right rewrites, and runs no program."""
    monkeypatch.setattr(alarms, "judge_batch", lambda *batch: Alarms(alarms.Counter({"all": 5})))
    cli.main(["mutants", "--stage", "verifier", "--programs", "6", "--pairs", "10"])
    out = capsys.readouterr().out
    assert "0 alarms on 10 right rewrites" in out
    assert "mutant CapturedItem" in out


def test_processes_that_all_die_end_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few batches in a row that never came back no more are waited for; one now and then does not matter."""
    lost, judged = Alarms(lost=1), Alarms(alarms.Counter({"all": 1}))
    monkeypatch.setattr(alarms, "_batches", lambda *batch: iter([lost, judged] * 6 + [lost] * 100))
    found = count_alarms(1000)
    assert (found.pairs, found.lost) == (6, 6 + alarms.LOST_IN_A_ROW)


def test_too_few_right_rewrites_fail_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where processes died before enough was judged `mutants` ends with 1, and with 0 where time was the limit."""
    monkeypatch.setattr(alarms, "_batches", lambda *batch: iter([Alarms(lost=1)]))
    monkeypatch.setattr(scoring, "score_mutators", lambda *given: [])
    monkeypatch.setattr(hunting, "hunt_all", lambda *given: [])
    command = ["mutants", "--stage", "verifier", "--pairs", "10"]
    assert cli.main(command) == 1
    assert cli.main([*command, "--pairs-seconds", "1"]) == 0


def test_a_program_that_thunder_refuses_ends_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults are planted in the programs after it, as if it had not been drawn."""
    built: list[bool] = []

    def refuse_the_first(resolved: Any, form: Any) -> Any:
        built.append(len(built) > 0)
        if not built[-1]:
            raise Refused("no such shape")
        return build(resolved, form)

    monkeypatch.setattr(scoring, "build", refuse_the_first)
    monkeypatch.setattr(scoring, "MOST_ROUNDS", 1)
    scores = scoring.score_mutators(4, seed=3)
    assert built[0] is False and all(built[1:]) and len(built) == 4
    assert sum(score.planted for score in scores) == sum(score.caught for score in scores) > 0


def test_programs_are_drawn_until_each_fault_was_planted() -> None:
    """A fault that needs two random draws in one region has no place in most programs, whatever the seed."""
    scores = scoring.score_mutators(100, seed=7)
    assert [score.name for score in scores if not score.ok] == []


OVERWRITES_WHAT_THUNDER_SAVED = """{"format": "cgverify-program", "version": 2, "inputs": [
 {"shape": [1], "dtype": "i32", "role": "parameter", "seed": 3},
 {"shape": [], "requires_grad": true, "values": "special", "seed": 1},
 {"shape": [1], "role": "buffer", "requires_grad": true}
], "steps": [
 {"op": "to_device", "args": [3], "params": {"device": "cuda"}},
 {"op": "var", "args": [15], "params": {"over": "one", "dim": 3}},
 {"op": "gtscalar", "args": [5]}, {"op": "mulscalar", "args": [3], "params": {"value": 0.5}},
 {"op": "lgamma", "args": [14]}, {"op": "index_copy", "args": [8, 2, 13]}, {"op": "setitem_tensor", "args": [10, 3, 2]},
 {"op": "prod", "args": [1]}, {"op": "eq", "args": [13, 6]},
 {"op": "setitem", "args": [7, 5], "params": {"start": 7, "length": 6, "kind": "stepped"}},
 {"op": "full_like", "args": [3]}, {"op": "sign", "args": [6]}
], "history": [{"do": "call", "seeds": [1]}], "outputs": [-8], "why": ""}"""

WRITES_INSIDE_A_FUSION = """{"format": "cgverify-program", "version": 2, "inputs": [
 {"shape": [1], "dtype": "i64", "seed": 1}
], "steps": [
 {"op": "tile", "args": [4]}, {"op": "to_device", "args": [9], "params": {"device": "cuda"}},
 {"op": "sub_", "args": [2, 11]}, {"op": "sign", "args": [2]}
], "history": [{"do": "call", "seeds": [1]}], "outputs": [-6], "why": ""}"""


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], _Judged]:
    """Judges the rewrites of one program through `thunder.jit`, its gradients and results as they are."""
    monkeypatch.setattr(alarms, "_with_gradients", lambda program: program)

    def judge(text: str) -> _Judged:
        found = _Judged()
        found.compiled(decode_program(text))
        return found

    return judge


def test_what_is_found_without_a_rewrite_is_no_alarm(judged: Callable[[str], _Judged]) -> None:
    """Thunder overwrites a value that it saved: the verifier says so, of the unchanged trace too, and it is counted."""
    found = judged(OVERWRITES_WHAT_THUNDER_SAVED)
    assert found.false == []
    assert found.kinds["warned of a fault of Thunder's own"] > 0


def test_a_fusion_that_writes_its_own_memory_may_be_called_to_write_an_input(
    judged: Callable[[str], _Judged],
) -> None:
    """The plan is cautious about `tile`, whose result is written inside the fusion; that is no fault."""
    found = judged(WRITES_INSIDE_A_FUSION)
    assert found.false == []
    assert found.kinds["fused forward"] == 1
