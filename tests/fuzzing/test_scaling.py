"""Programs a second over numbers of workers: what is counted, and what is said of it."""

from __future__ import annotations

from cgverify.fuzzing import scaling
from cgverify.fuzzing.scaling import describe_scaling, measure_scaling

import pytest


def test_two_workers_judge_more_than_one_program_each() -> None:
    """All workers come to judge programs, and their rates are added up."""
    rates = measure_scaling([2], 1.0, target="none", device="emulated", property="structure")
    assert list(rates) == [2]
    assert rates[2] > 2


def test_each_number_is_compared_with_the_fewest_workers() -> None:
    """Each line says the rate, how often the fewest workers' that is, and what is left of the pace of one."""
    assert describe_scaling({4: 60.0, 1: 20.0, 12: 120.0}) == [
        "1 worker: 20.0 programs a second",
        "4 workers: 60.0 programs a second, 3.0 times, 75 % each",
        "12 workers: 120.0 programs a second, 6.0 times, 50 % each",
    ]


def test_a_worker_that_ends_is_no_reason_to_wait(capfd: pytest.CaptureFixture[str]) -> None:
    """Where a worker ends before it has judged anything, that is said at once, with what it printed above."""
    with pytest.raises(RuntimeError, match=r"not all of 1 worker judged programs for 0.1 s: what they printed"):
        measure_scaling([1], 0.1, target="none", device="emulated", property="nonsense")
    assert "KeyError: 'nonsense'" in capfd.readouterr().err


def test_an_unknown_target_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused before any worker starts."""
    with pytest.raises(SystemExit):
        scaling.main(["--target", "nosuch"])
    assert "--target " in (said := capsys.readouterr().err) and "nosuch" in said


@pytest.mark.parametrize("workers", ["0", "1,x", "", "2,-1"])
def test_numbers_of_workers_are_checked(workers: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no number of workers is named, with what to give."""
    with pytest.raises(SystemExit):
        scaling.main(["--workers", workers])
    assert f"--workers {workers}: give numbers of 1 or more" in capsys.readouterr().err
