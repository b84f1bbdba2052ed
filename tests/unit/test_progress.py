"""Progress on a terminal and elsewhere, on a clock that the tests move."""

from __future__ import annotations

import io
import threading
import time
from dataclasses import dataclass

from cgverify import progress
from cgverify.progress import show_progress, show_waiting

import pytest


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress.time, "monotonic", found)
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_clock_of_the_module_is_the_usual_one() -> None:
    """The module reads the clock that the tests replace."""
    assert progress.time is time


def test_plain_output_is_a_line_now_and_then(clock: Clock) -> None:
    """Where there is no terminal, a line every 30 seconds says count, rate, failures and time left."""
    stream = io.StringIO()
    with show_progress("mutants", 100, stream=stream) as shown:
        for _ in range(31):
            clock.now += 2
            shown.advance(failed=shown.done == 0)
    assert stream.getvalue().splitlines() == [
        "mutants: 15 of 100 programs, 0.5/s, 1 failure, 3 min left",
        "mutants: 30 of 100 programs, 0.5/s, 1 failure, 2 min left",
    ]


def test_short_run_shows_nothing(clock: Clock) -> None:
    """A run of less than two seconds writes nothing, on a terminal or elsewhere."""
    for stream in (io.StringIO(), Terminal()):
        with show_progress("check", 10, stream=stream) as shown:
            clock.now += 1
            shown.advance()
        assert stream.getvalue() == ""


def test_terminal_shows_rate_failures_and_time_left(clock: Clock) -> None:
    """On a terminal a bar appears after two seconds, with rate, failures and time left, and is wiped at the end."""
    stream = Terminal()
    with show_progress("cases", 300, unit="cases", stream=stream) as shown:
        clock.now += 3
        shown.advance(30, failed=2)
    written = stream.getvalue()
    assert "cases" in written and "30/300" in written
    assert "10.0/s, 2 failures, 27 s left" in written
    assert written.endswith("\x1b[2K")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (99, "99 s"), (150, "2 min"), (5400, "90 min"), (7500, "2 h 5 min")]
)
def test_time_left_is_said_in_one_unit_that_fits(clock: Clock, seconds: int, text: str) -> None:
    """Time left is in seconds, minutes, or hours and minutes."""
    with show_progress("run", seconds + 1, stream=io.StringIO()) as shown:
        clock.now += 1
        shown.advance()
        assert shown.render() == f"1 of {seconds + 1} programs, 1.0/s, 0 failures, {text} left"


def test_what_an_earlier_run_did_makes_no_rate(clock: Clock) -> None:
    """A run that goes on where another stopped counts what that did, but not for its rate and its time left."""
    with show_progress("campaign", 1000, done=800, stream=io.StringIO()) as shown:
        clock.now += 10
        shown.advance(100)
        assert shown.render() == "900 of 1000 programs, 10.0/s, 0 failures, 10 s left"


def test_unknown_total_is_left_out(clock: Clock) -> None:
    """Without a total there is neither a share nor a time left."""
    with show_progress("campaign", unit="shards", stream=io.StringIO()) as shown:
        clock.now += 2
        shown.advance(4)
        assert shown.render() == "4 shards, 2.0/s, 0 failures"


class Waited(Terminal):
    """A terminal that says when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


def test_waiting_shows_what_and_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work without steps is named on a terminal, and its line is wiped at the end."""
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setenv("TERM", "xterm")
    stream = Waited()
    with show_waiting("compiling", stream=stream):
        assert stream.written.wait(10)
    assert "compiling" in stream.getvalue()
    assert "0:00:0" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


def test_short_or_unwatched_waiting_shows_nothing() -> None:
    """Work of less than two seconds writes nothing, and none does where there is no terminal."""
    for stream in (io.StringIO(), Terminal()):
        with show_waiting("compiling", stream=stream):
            pass
        assert "compiling" not in stream.getvalue()
