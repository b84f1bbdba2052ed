"""Worker processes: a call that ends its process is told apart, and the other calls are made."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import count, islice

from cgverify.fuzzing.workers import call_each, call_in_order

import pytest


def double(number: int) -> int:
    """Twice a number; ends its process at 3 and raises at 100."""
    if number == 3:
        os.abort()
    if number == 100:
        raise ValueError("too big")
    return 2 * number


def process_of(number: int) -> int:
    """The process that makes the call."""
    return os.getpid()


def test_a_dead_process_costs_its_own_call() -> None:
    """Every argument comes back once, and only the one that ends processes without a result."""
    found = dict(call_each(double, range(8), 2))
    assert found == {n: None if n == 3 else 2 * n for n in range(8)}


def test_what_a_call_raises_is_raised() -> None:
    """An error in a worker is no death."""
    with pytest.raises(ValueError, match="too big"):
        list(call_each(double, [1, 100], 1))


def test_calls_in_order_begin_few_ahead() -> None:
    """Results come in the order of the arguments, which may have no end; a call that ends processes gives None."""
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for number in count():
            taken.append(number)
            yield number

    results = call_in_order(double, numbers(), 2, calls=3)
    assert list(islice(results, 6)) == [0, 2, 4, None, 8, 10]
    assert len(taken) <= 6 + 3 * 2
    results.close()


def sleep_at_two(number: int) -> int:
    """Its argument, but for 2 late."""
    time.sleep(60 * (number == 2))
    return number


def test_a_call_that_takes_too_long_is_ended() -> None:
    """Its process goes after the given time, and the calls behind it are made."""
    assert list(call_in_order(sleep_at_two, range(4), 1, calls=9, patience=4.0)) == [0, 1, None, 3]


def test_a_process_makes_so_many_calls() -> None:
    """After the given number of calls another process takes over."""
    processes = list(call_in_order(process_of, range(6), 1, calls=2))
    assert [processes.index(process) for process in processes] == [0, 0, 2, 2, 4, 4]
