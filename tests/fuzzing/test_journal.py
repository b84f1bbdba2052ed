"""The journal: what was running when a process died is found, claimed once, and by whoever can run it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

from cgverify.fuzzing.executor import InProcess
from cgverify.fuzzing.journal import ERRORS, KILLS, Journal, count_waiting, find_unfinished
from cgverify.fuzzing.program import Program, load_program
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.session import Shard
from cgverify.fuzzing.targets import find_target
from cgverify.fuzzing.verdict import Verdict
from tests.fuzzing.programs_by_name import PROGRAMS

import pytest

ROOT = Path(__file__).parents[2]
ONE, TWO = PROGRAMS["double"], PROGRAMS["write"]


def open_journal(folder: Path, target: str = "cgverify", device: str = "emulated") -> Journal:
    """A journal of this process."""
    return Journal(folder, target, device)


def abandon(journal: Journal) -> None:
    """Let go of a journal as a dying process does: the lock goes, the file stays."""
    os.close(journal._file)


def interrupt(journal: Journal, property: str = "equivalence") -> None:
    """Leave a program in the middle."""
    with pytest.raises(KeyboardInterrupt), journal.running(property, ONE):
        raise KeyboardInterrupt


def test_unfinished_is_claimed(tmp_path: Path) -> None:
    """A program that was left by an exception is claimed by the next process; one that ended is not."""
    dead = open_journal(tmp_path)
    with dead.running("equivalence", TWO) as entry:
        entry.status = "ok"
    interrupt(dead)
    abandon(dead)
    journal = open_journal(tmp_path)
    assert [program for _, program in journal.claim("equivalence")] == [ONE]
    assert not dead.path.exists()
    assert journal.claim("equivalence") == []
    journal.close()


def test_claimed_is_not_lost(tmp_path: Path) -> None:
    """A process that dies before it has run what it claimed leaves it to the next one, which runs it once."""
    for _ in range(3):
        journal = open_journal(tmp_path)
        if not journal.claim("equivalence"):
            interrupt(journal)
        abandon(journal)
    journal = open_journal(tmp_path)
    ((number, program),) = journal.claim("equivalence")
    with journal.running("equivalence", program, number) as entry:
        entry.status = "ok"
    journal.close()
    assert list(tmp_path.glob("*.jsonl")) == []


class Killed(BaseException):
    """Stands for the end of a process without a word."""


class Poisoned(InProcess):
    """Ends with one program."""

    end: type[BaseException] = RuntimeError

    def judge(self, property: str, program: Program, limit: float = 0.0) -> Verdict:
        if program == ONE:
            raise self.end
        return Verdict("ok")


def begin_shard(folder: Path, end: type[BaseException]) -> Shard:
    """A shard whose process ends with one program."""
    target = find_target("cgverify")
    judge = Poisoned(target, "emulated")
    judge.end = end
    journal = open_journal(folder / "journal")
    shard = Shard(PROPERTIES["equivalence"], target, "emulated", folder / "failures", 0, "test", judge, journal)
    shard.begin(None)
    return shard


@pytest.mark.parametrize("drawn_again", [True, False])
@pytest.mark.parametrize(("end", "times"), [(RuntimeError, ERRORS), (Killed, KILLS)])
def test_a_program_that_no_process_survives_is_given_up(
    end: type[BaseException], times: int, drawn_again: bool, tmp_path: Path
) -> None:
    """After the process that drew it and two that took it up, or more that may have been killed by somebody, a program
    is a crash on record, and is not run again.
    """
    for time in range(times):
        shard = begin_shard(tmp_path, end)
        with pytest.raises(end):
            shard.recover(look_into=not drawn_again)
            assert time == 0
            shard._run(ONE)
        assert shard.journal is not None
        abandon(shard.journal)
    shard = begin_shard(tmp_path, end)
    shard.recover(look_into=not drawn_again)
    assert not drawn_again or not shard.findings.failures
    assert [shard._run(program).invariant for program in (ONE, TWO)] == ["crash", ""]
    outcome = shard.end()
    assert [(entry.status, entry.cause) for entry in outcome.recovered] == [("fail", "process")]
    ((failure,), recovered) = outcome.failures, outcome.recovered[0]
    assert failure.evidence == recovered.evidence
    assert failure.evidence.startswith("no process survives judging it; to have it judged again, delete ")
    assert load_program(Path(failure.script).with_suffix(".json")).steps == ONE.steps
    assert outcome.statuses["fail"] == 1
    assert shard.journal is not None
    shard.journal.close()
    (tmp_path / "journal" / failure.evidence.split()[-4]).unlink()
    assert list((tmp_path / "journal").iterdir()) == []


def test_a_program_that_a_process_survives_is_forgiven(tmp_path: Path) -> None:
    """Ends count until a process survives the program, and only of what was running."""
    for _ in range(2):
        dead = open_journal(tmp_path)
        interrupt(dead)
        abandon(dead)
    journal = open_journal(tmp_path)
    assert len(journal.claim("equivalence")) == 2
    assert journal.find_ends("equivalence", ONE).stat().st_size == 2
    abandon(journal)
    journal = open_journal(tmp_path)
    claimed = journal.claim("equivalence")
    assert journal.find_ends("equivalence", ONE).stat().st_size == 2
    for number, program in claimed:
        with journal.running("equivalence", program, number) as entry:
            entry.status = "ok"
    journal.forget_ends("equivalence", ONE)
    journal.close()
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_is_just_made_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks for what is unfinished while a journal is made and not locked yet does not delete it."""
    other, lock = open_journal(tmp_path), fcntl.flock

    def look_first(file: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        assert other.claim("equivalence") == []
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", look_first)
    journal = open_journal(tmp_path)
    interrupt(journal)
    abandon(journal)
    assert [program for _, program in other.claim("equivalence")] == [ONE]
    other.close()


def test_living_processes_are_left_alone(tmp_path: Path) -> None:
    """What a living process is running is nobody else's."""
    living, journal = open_journal(tmp_path), open_journal(tmp_path)
    with living.running("equivalence", ONE):
        assert journal.claim("equivalence") == []
    living.close()
    journal.close()


@pytest.mark.parametrize(
    ("property", "target", "device"),
    [("eager", "cgverify", "emulated"), ("equivalence", "none", "emulated"), ("equivalence", "cgverify", "cuda")],
)
def test_others_are_left_waiting(property: str, target: str, device: str, tmp_path: Path) -> None:
    """A program of another property, target or device waits for a process that can run it, and is counted."""
    dead = open_journal(tmp_path, target, device)
    interrupt(dead, property)
    abandon(dead)
    journal = open_journal(tmp_path)
    assert journal.claim("equivalence") == []
    assert count_waiting(tmp_path) == 1
    journal.close()


def test_cut_off_lines(tmp_path: Path) -> None:
    """A line that its process did not finish announces nothing, and what stands before it counts."""
    journal = open_journal(tmp_path)
    interrupt(journal)
    content = journal.path.read_bytes()
    assert len(find_unfinished(content)) == 1
    assert find_unfinished(content[:-20]) == []
    assert len(find_unfinished(content + content[:50])) == 1
    abandon(journal)


def test_kill(tmp_path: Path) -> None:
    """A process that ends by `kill -9` in the middle of a program leaves it to be claimed."""
    code = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom cgverify.fuzzing.journal import Journal\n"
        "from tests.fuzzing.programs_by_name import PROGRAMS\n"
        "with Journal(Path(sys.argv[1]), 'cgverify', 'emulated').running('equivalence', PROGRAMS['double']):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    journal = open_journal(tmp_path)
    assert [program for _, program in journal.claim("equivalence")] == [ONE]
    abandon(journal)
