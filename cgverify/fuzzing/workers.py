"""Calls a function for each argument in several processes, of which one that dies costs its own call only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from queue import SimpleQueue
from typing import TypeVar

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
    # A pool of several processes is lost with one of them, and does not say which call it was.
    free: SimpleQueue[ProcessPoolExecutor] = SimpleQueue()
    for _ in range(jobs):
        free.put(_start())

    def call(argument: _Argument) -> tuple[_Argument, _Result | None]:
        for _ in range(TRIES):
            pool = free.get()
            try:
                return argument, pool.submit(function, argument).result()
            except BrokenProcessPool:
                pool.shutdown()
                pool = _start()
            finally:
                free.put(pool)
        return argument, None

    threads = ThreadPoolExecutor(jobs)
    try:
        for done in as_completed([threads.submit(call, argument) for argument in arguments]):
            yield done.result()
    finally:
        threads.shutdown(cancel_futures=True)
        while not free.empty():
            free.get().shutdown()


def _start() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))
