"""Calls a function for each argument in several processes, of which one that dies costs its own call only."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures import TimeoutError as FutureTimeoutError  # one of its own before Python 3.11
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from queue import SimpleQueue
from typing import Generic, TypeVar

TRIES = 2
"""Processes that a call may end before it is to blame."""

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


def call_each(
    function: Callable[[_Argument], _Result], arguments: Sequence[_Argument], jobs: int
) -> Iterator[tuple[_Argument, _Result | None]]:
    """Yield each argument and what `function` returns for it, as they come; None where two processes died of it.

    Args:
        function: something that can be pickled; what it raises is raised here.
        arguments: likewise.
        jobs: processes, each a fresh interpreter that makes one call after the other.
    """
    with _workers(function, jobs) as (workers, threads):
        for done in as_completed([threads.submit(workers.call, argument) for argument in arguments]):
            yield done.result()


def call_in_order(
    function: Callable[[_Argument], _Result],
    arguments: Iterable[_Argument],
    jobs: int,
    calls: int,
    patience: float | None = None,
) -> Generator[_Result | None, None, None]:
    """Yield what `function` returns for each argument, in order; None where two processes died of it.

    Args:
        function: something that can be pickled; what it raises is raised here.
        arguments: likewise, perhaps without end: of no more than three for each process the call is begun ahead.
        jobs: processes, each a fresh interpreter.
        calls: how many calls a process makes before another one takes its place.
        patience: seconds after which a call is ended with its process; None for no limit.
    """
    with _workers(function, jobs, calls, patience) as (workers, threads):
        begun: deque[Future[tuple[_Argument, _Result | None]]] = deque()
        for argument in arguments:
            begun.append(threads.submit(workers.call, argument))
            if len(begun) >= 3 * jobs:
                yield begun.popleft().result()[1]
        while begun:
            yield begun.popleft().result()[1]


class _Workers(Generic[_Argument, _Result]):
    """Pools of one process each: one of several processes is lost with one of them, and does not say by which call."""

    def __init__(
        self, function: Callable[[_Argument], _Result], jobs: int, calls: int | None, patience: float | None
    ) -> None:
        self._function, self._calls, self._patience = function, calls, patience
        self._free: SimpleQueue[tuple[ProcessPoolExecutor, int]] = SimpleQueue()
        for _ in range(jobs):
            self._free.put((_start(), 0))

    def call(self, argument: _Argument) -> tuple[_Argument, _Result | None]:
        """The argument and what the function returns for it, None if it ended `TRIES` processes."""
        for _ in range(TRIES):
            pool, made = self._free.get()
            try:
                if made == self._calls:
                    pool.shutdown()
                    pool, made = _start(), 0
                made += 1
                return argument, pool.submit(self._function, argument).result(self._patience)
            except (BrokenProcessPool, FutureTimeoutError):
                _end(pool)
                pool, made = _start(), 0
            finally:
                self._free.put((pool, made))
        return argument, None

    def close(self) -> None:
        """Ends the processes, which are idle by now."""
        while not self._free.empty():
            self._free.get()[0].shutdown()


@contextmanager
def _workers(
    function: Callable[[_Argument], _Result], jobs: int, calls: int | None = None, patience: float | None = None
) -> Iterator[tuple[_Workers[_Argument, _Result], ThreadPoolExecutor]]:
    workers, threads = _Workers(function, jobs, calls, patience), ThreadPoolExecutor(jobs)
    try:
        yield workers, threads
    finally:
        threads.shutdown(cancel_futures=True)
        workers.close()


def _end(pool: ProcessPoolExecutor) -> None:
    """Ends the pool's process, whatever it is doing; before Python 3.14 an executor has no method for that."""
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown()


def _start() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))
