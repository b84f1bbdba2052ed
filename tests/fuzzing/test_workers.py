"""Worker processes: a call that ends its process is told apart, and the other calls are made."""

from __future__ import annotations

import os

from cgverify.fuzzing.workers import call_each

import pytest


def double(number: int) -> int:
    """Twice a number; ends its process at 3 and raises at 100."""
    if number == 3:
        os.abort()
    if number == 100:
        raise ValueError("too big")
    return 2 * number


def test_a_dead_process_costs_its_own_call() -> None:
    """Every argument comes back once, and only the one that ends processes without a result."""
    found = dict(call_each(double, range(8), 2))
    assert found == {n: None if n == 3 else 2 * n for n in range(8)}


def test_what_a_call_raises_is_raised() -> None:
    """An error in a worker is no death."""
    with pytest.raises(ValueError, match="too big"):
        list(call_each(double, [1, 100], 1))
