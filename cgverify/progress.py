"""Shows how far a long run is: rate, failures so far, time left.

On a terminal a bar appears once the run has taken `DELAY` seconds and goes when it ends. Elsewhere one plain line is
written every `INTERVAL` seconds. Both go to standard error, so that what a command prints stays what it found.
Work that has no steps gets a clock on a terminal, and nothing elsewhere.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

DELAY = 2.0
INTERVAL = 30.0


class Progress:
    """Counts what is done and what failed, and says so now and then.

    Args:
        what: what runs, such as ``mutants``.
        total: how many steps there are; None if nobody knows.
        unit: what a step is, in the plural.
        stream: where to show it.
        done: steps that an earlier run did; they do not count for the rate.
    """

    def __init__(self, what: str, total: int | None, unit: str, stream: TextIO, done: int = 0) -> None:
        self.what, self.total, self.unit, self.stream = what, total, unit, stream
        self.done = self._found_done = done
        self.failed = 0
        self._began = self._told = time.monotonic()
        self._bars: Bars | None = None

    def advance(self, count: int = 1, *, failed: int = 0) -> None:
        """Say that `count` more steps are done, and that `failed` more things went wrong."""
        self.done += count
        self.failed += failed
        if self.stream.isatty():
            self._show()
        elif time.monotonic() - self._told >= INTERVAL:
            self._told = time.monotonic()
            print(f"{self.what}: {self.render()}", file=self.stream, flush=True)

    def render(self) -> str:
        """One line: ``300 of 1000 programs, 42.0/s, 0 failures, 16 s left``."""
        of = f" of {self.total}" if self.total is not None else ""
        return f"{self.done}{of} {self.unit}, {self._pace()}"

    def close(self) -> None:
        """Take the bar away."""
        if self._bars is not None:
            self._bars.stop()

    def _pace(self) -> str:
        rate = (self.done - self._found_done) / max(time.monotonic() - self._began, 1e-9)
        parts = [f"{rate:.{0 if rate >= 100 else 1}f}/s", f"{self.failed} failure{'' if self.failed == 1 else 's'}"]
        if self.total is not None and rate > 0:
            parts.append(f"{_duration((self.total - self.done) / rate)} left")
        return ", ".join(parts)

    def _show(self) -> None:
        if self._bars is None:
            if time.monotonic() - self._began < DELAY:
                return
            self._bars = self._open()
        self._bars.update(self._bars.task_ids[0], completed=self.done, pace=self._pace())

    def _open(self) -> Bars:
        pace = TextColumn("{task.fields[pace]}")
        bars = _make_bars(self.stream, BarColumn(bar_width=24), MofNCompleteColumn(), pace)
        bars.add_task(self.what, total=self.total, pace="")
        bars.start()
        return bars


@contextmanager
def show_progress(
    what: str, total: int | None = None, *, unit: str = "programs", stream: TextIO | None = None, done: int = 0
) -> Iterator[Progress]:
    """Show how far a run is while the block lasts; the block calls `Progress.advance`.

    Args:
        what: what runs, in a word or two.
        total: how many steps there are; None if nobody knows.
        unit: what a step is, in the plural.
        stream: where to show it; standard error if None.
        done: steps that an earlier run did.
    """
    progress = Progress(what, total, unit, sys.stderr if stream is None else stream, done)
    try:
        yield progress
    finally:
        progress.close()


@contextmanager
def show_waiting(what: str, *, stream: TextIO | None = None) -> Iterator[None]:
    """Show on a terminal that work without steps goes on, and for how long, once it has taken `DELAY` seconds.

    Args:
        what: what is done, such as ``compiling``.
        stream: where to show it; standard error if None.
    """
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield
        return
    bars = _make_bars(stream, SpinnerColumn())
    bars.add_task(what, total=None)
    timer = threading.Timer(DELAY, bars.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        bars.stop()


def _make_bars(stream: TextIO, *columns: ProgressColumn) -> Bars:
    """A line that goes when it ends: what is done, some columns, the time that has passed."""
    return Bars(
        TextColumn("{task.description}", markup=False),
        *columns,
        TimeElapsedColumn(),
        console=Console(file=stream),
        transient=True,
        # what a command prints meanwhile goes above the line, unless it goes elsewhere than to the terminal
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=True,
    )


def _duration(seconds: float) -> str:
    """``16 s``, ``3 min``, ``2 h 5 min``."""
    if seconds < 100:
        return f"{max(seconds, 0):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
