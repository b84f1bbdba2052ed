"""A record, written ahead, of the program that is about to run, so that no death loses an example.

Each process has a file of its own: a line when a program starts, with all that is needed to run it again, and a line
when its verdict is in and what follows from it is written. Lines are written with one system call each, which
survives the death of the process; once a second they are also forced to the disk, which survives that of the machine.

A process holds a lock on its file while it lives. A file without one belongs to a dead process: a program that starts
in it and does not end there was running, and whoever claims it runs it first. A file beside, named by the program,
grows with each such end until a process survives the program; so one that no process survives can be given up.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cgverify.fuzzing.program import Program, ProgramError, decode_program, encode_program

import msgspec

SYNC = 1.0
"""Seconds between two times that lines are forced to the disk."""

MAX_BYTES = 8 << 20
"""Size from which a file starts anew, as soon as nothing in it is unfinished."""

ERRORS = 3
"""Processes that may end with an error at a program before it is given up: one that drew it, and two that try again."""

KILLS = 12
"""The same for processes that end without a word: somebody may have killed them, one after the other."""


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: a program starts, or (without `program`) has ended.

    Attributes:
        number: counts the programs of a file.
        property: what is judged.
        target: name of the target.
        device: where the program runs.
        program: its file.
        status: the verdict.
        invariant: what is broken, empty unless it fails.
        waiting: whether it does not run: it was claimed, or has ended with an error.
    """

    number: int
    property: str = ""
    target: str = ""
    device: str = ""
    program: str = ""
    status: str = ""
    invariant: str = ""
    waiting: bool = False


@dataclass(slots=True)
class Running:
    """A program that runs: its number in the file, and its verdict, as soon as that is known."""

    number: int
    status: str = ""
    invariant: str = ""


class Journal:
    """The file of this process, for programs with one target on one device.

    Attributes:
        path: the file.
    """

    def __init__(self, folder: Path, target: str, device: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._target, self._device = folder, target, device
        self.path = folder / f"{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
        # Until it is locked it has a name that nobody claims: an empty file without a lock would be deleted.
        draft = self.path.with_suffix(".new")
        self._file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        draft.rename(self.path)
        self._number = self._size = 0
        self._open: set[int] = set()
        self._synced = 0.0

    @contextmanager
    def running(self, property: str, program: Program, number: int | None = None) -> Iterator[Running]:
        """Record that a program runs; `status` and `invariant` of what is yielded are recorded at the end.

        A program that is left by an exception stays unfinished: it was interrupted, or could not be judged.

        Args:
            property: what is judged.
            program: the program.
            number: the number under which it was claimed; None for a program that is new.
        """
        entry = Running(self._start(property, program, number))
        try:
            yield entry
        except Exception:
            self._add_end(property, program, KILLS // ERRORS)
            self._start(property, program, entry.number, waiting=True)
            raise
        self._write(Line(entry.number, status=entry.status, invariant=entry.invariant))

    def claim(self, property: str) -> list[tuple[int, Program]]:
        """Take over what dead processes left unfinished of this property, target and device: numbers and programs.

        From here on it is unfinished in this file; run each with :meth:`running`.
        """
        claimed = []
        for path in sorted(self._folder.glob("*.jsonl")):
            claimed += [] if path == self.path else self._claim_file(path, property)
        return claimed

    def is_hopeless(self, property: str, program: Program) -> bool:
        """Whether a program is to be given up: too many processes ended with it, and none has survived it since."""
        try:
            return self.find_ends(property, program).stat().st_size >= KILLS
        except FileNotFoundError:
            return False

    def forget_ends(self, property: str, program: Program) -> None:
        """Note that a process survived a program."""
        self.find_ends(property, program).unlink(missing_ok=True)

    def find_ends(self, property: str, program: Program) -> Path:
        """Return the file that counts how often a process ended with a program: a byte for one that was killed."""
        parts = property, self._target, self._device, encode_program(program)
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return self._folder / f"{digest[:16]}.ends"

    def _add_end(self, property: str, program: Program, weight: int) -> None:
        with self.find_ends(property, program).open("ab") as file:
            file.write(b"x" * weight)

    def close(self) -> None:
        """Let go of the file; one in which nothing is unfinished is deleted."""
        if not find_unfinished(os.pread(self._file, os.fstat(self._file).st_size, 0)):
            self.path.unlink(missing_ok=True)
        os.close(self._file)

    def _start(self, property: str, program: Program, number: int | None = None, waiting: bool = False) -> int:
        """Write that a program starts, under a new number if it has none; return the number."""
        if number is None:
            if self._size > MAX_BYTES and not self._open:
                os.ftruncate(self._file, 0)
                self._size = 0
            self._number += 1
            number = self._number
        text = encode_program(program)
        self._write(Line(number, property, self._target, self._device, text, waiting=waiting))
        return number

    def _write(self, line: Line) -> None:
        self._size += os.write(self._file, msgspec.json.encode(line) + b"\n")
        (self._open.add if line.program else self._open.discard)(line.number)
        now = time.monotonic()
        if now > self._synced + SYNC:
            self._synced = now
            os.fsync(self._file)

    def _claim_file(self, path: Path, property: str) -> list[tuple[int, Program]]:
        with _locked(path) as file:
            if file is None:
                return []
            unfinished = find_unfinished(os.pread(file, os.fstat(file).st_size, 0))
            claimed = []
            for line in list(unfinished):
                if (line.property, line.target, line.device) == (property, self._target, self._device):
                    unfinished.remove(line)
                    program = decode_program(line.program, str(path))
                    if not line.waiting:
                        self._add_end(property, program, 1)
                    claimed.append((self._start(property, program, waiting=True), program))
                    os.write(file, msgspec.json.encode(Line(line.number, status="claimed")) + b"\n")
            if not unfinished:
                path.unlink()
        return claimed


def find_unfinished(content: bytes) -> list[Line]:
    """Return the programs that start in a journal and do not end there.

    A last line that was cut off when its process died is left out: what it announced never began. So is a program of
    another version of the file format, which nobody here can run.
    """
    started: dict[int, Line] = {}
    for text in content.splitlines():
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if line.program:
            started[line.number] = line
        else:
            started.pop(line.number, None)
    return [line for line in started.values() if _is_readable(line.program)]


def _is_readable(text: str) -> bool:
    try:
        decode_program(text)
    except ProgramError:
        return False
    return True


def count_waiting(folder: Path) -> int:
    """Return how many programs dead processes left unfinished, whatever their property, target and device."""
    count = 0
    for path in sorted(folder.glob("*.jsonl")):
        with _locked(path) as file:
            if file is not None:
                count += len(find_unfinished(os.pread(file, os.fstat(file).st_size, 0)))
    return count


@contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Give a file whose process is dead, locked; None if it is alive or the file is gone.

    Another process may claim and delete the file before it is locked here.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        yield None
        return
    try:
        yield file if _lock(file) and path.exists() and os.path.samestat(os.fstat(file), path.stat()) else None
    finally:
        os.close(file)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
