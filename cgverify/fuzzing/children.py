"""Starts, asks and buries the processes that run programs: the parent's side of :mod:`.template`."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from cgverify.fuzzing.child_messages import FORK, REAP, SERVE, Answer, Ready, Request
from cgverify.fuzzing.devices import DeviceName
from cgverify.fuzzing.frames import receive, send
from cgverify.fuzzing.invariants import Crash, Hang

STARTING = 300.0
"""Seconds that a template may take to import what it needs, on a machine busy with others."""

STARTS = 3
"""Times that a template is started before it is given up."""

MAX_LOG = 1 << 20
"""Bytes of output that are kept while programs run."""

REAPING = 30.0
"""Seconds that a killed process may take to end."""


class ExecutorError(RuntimeError):
    """Programs cannot be judged: a child does not start, or judging itself raised."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended before it answered.

    Attributes:
        invariant: what this breaks: `crash` or `hang`.
        evidence: how it ended, in words.
        killed: whether somebody may have killed it, which says little about the program.
    """

    invariant: str
    evidence: str
    killed: bool = False


class Template:
    """The process that children are forked from; started when the first is needed, and again if it was killed.

    Where CUDA does not let itself be forked, each child is a process started for it, and the next one is started
    ahead of time.
    """

    def __init__(self, device: DeviceName) -> None:
        self._device = device
        self._running: _Running | None = None
        self._spare: _Running | None = None

    def start(self) -> None:
        """Start it ahead of time, unless it runs already."""
        if self._running is None and self._spare is None:
            self._spare = _start(self._device)

    def fork(self) -> Child:
        """Return a fresh child.

        Raises:
            ExecutorError: the template does not start or does not fork.
        """
        said = ""
        for _ in range(STARTS):
            running = self._running = self._running or self._spare or _start(self._device)
            self._spare = None
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    pid = running.make_child(theirs)
            except OSError:
                pid = None
            if pid is not None:
                if not running.can_fork:
                    self._spare = _start(self._device)
                return Child(self, pid, ours, running.log)
            ours.close()
            said = _read_tail(running.log, 0)
            self._drop()
        raise ExecutorError(f"the process that runs programs does not start; its output ends with: {said}")

    def reap(self) -> int | None:
        """Return the exit status of the child, negative for a signal; None if nobody knows."""
        running = self._running
        if running is None:
            return None
        status = running.reap()
        if status is None or not running.can_fork:
            self._drop()
        return status

    def close(self) -> None:
        """End the template, and with it its child."""
        self._drop()
        self._running, self._spare = self._spare, None
        self._drop()

    def _drop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()


@dataclass(slots=True)
class _Running:
    """A template: its process, the socket to it, what it and its children print, and whether it can be forked."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    log: IO[bytes]
    can_fork: bool | None = None

    def make_child(self, channel: socket.socket) -> int | None:
        """Have a child made that answers on the other end of `channel`; return its process, None if that fails."""
        if self.can_fork is None:
            ready = receive(self.control, Ready, STARTING)
            if ready is None:
                return None
            self.can_fork = ready.can_fork
        socket.send_fds(self.control, [FORK if self.can_fork else SERVE], [channel.fileno()])
        return receive(self.control, int, STARTING) if self.can_fork else self.process.pid

    def reap(self) -> int | None:
        """Return the exit status of the child."""
        try:
            if not self.can_fork:
                return self.process.wait(REAPING)
            self.control.send(REAP)
            return receive(self.control, int, REAPING)
        except (OSError, subprocess.TimeoutExpired):
            return None

    def close(self) -> None:
        """End the process."""
        self.control.close()
        if self.can_fork is not True:
            self.process.kill()  # it may be busy importing, or be a child
        try:
            self.process.wait(REAPING)
        except subprocess.TimeoutExpired:
            self.process.kill()
            with suppress(subprocess.TimeoutExpired):  # a driver may hold even a killed process, for ever
                self.process.wait(REAPING)
        self.log.close()


def _start(device: DeviceName) -> _Running:
    # Appending, so that what one process writes lies behind what the last one wrote, also after a truncation.
    log = tempfile.TemporaryFile("a+b", prefix="cgverify-child-")  # noqa: SIM115
    control, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "cgverify.fuzzing.template", str(theirs.fileno()), device],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(),
        )
    return _Running(process, control, log)


class Child:
    """One warm child.

    Attributes:
        judged: how many programs it was given.
    """

    def __init__(self, template: Template, pid: int, channel: socket.socket, log: IO[bytes]) -> None:
        self.judged = 0
        self.pid = pid
        self._template, self._channel, self._log = template, channel, log

    def ask(self, request: Request, limit: float) -> Answer | Ended:
        """Have one program judged."""
        self.judged += 1
        start = os.fstat(self._log.fileno()).st_size
        if start > MAX_LOG:
            os.ftruncate(self._log.fileno(), 0)
            start = 0
        try:
            send(self._channel, request)
            answer = receive(self._channel, Answer, limit)
        except TimeoutError:
            return Ended(Hang.name, f"the process does not answer within {limit:g} s")
        except OSError:
            answer = None
        if answer is not None:
            return answer
        said = _read_tail(self._log, start)
        self.pid, status = 0, self._template.reap()
        evidence = f"the process {_describe_end(status)}; it said: {said}"
        return Ended(Crash.name, evidence, killed=status in (None, -signal.SIGKILL))

    def end(self) -> None:
        """Kill it if it still runs."""
        self._channel.close()
        if self.pid:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self._template.reap()


def _read_tail(log: IO[bytes], start: int) -> str:
    """Return the most telling line that was written to the log from `start` on, and the Python line it stopped at."""
    log.seek(start)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    telling = [line for mark in _TELLING for line in lines if line.startswith(mark)] or lines[-1:] or ["nothing"]
    places = [line for line in lines if line.startswith('File "') and " in " in line]
    return telling[0][:300] + (f", at {_shorten(places[0])}" if places else "")


_TELLING = ("what():", "terminate called", "Fatal Python error")
"""How lines begin that say why a process dies, the best first."""


def _shorten(place: str) -> str:
    """Return `File "/long/path/module.py", line 3 in f` without the folders, which differ between machines."""
    head, quote, rest = place.removeprefix('File "').partition('"')
    return f"{os.path.basename(head)}{rest}" if quote else place


def _describe_end(status: int | None) -> str:
    if status is None:
        return "ends"
    return f"dies of {signal.Signals(-status).name}" if status < 0 else f"ends with exit code {status}"


def _environment() -> dict[str, str]:
    """Return the environment of the template: it finds the modules that this process finds, and runs one thread.

    A process that asks the CUDA driver how many devices there are cannot be forked afterwards; NVML may be asked.
    """
    paths = [path for path in sys.path if path]
    root = importlib.util.find_spec("cgverify")
    if root is not None and root.submodule_search_locations:
        paths.append(os.path.dirname(next(iter(root.submodule_search_locations))))
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
