"""`ungraphed()`: calls that run without graphs, by this thread, while a block is open."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

OPEN: dict[int, int] = {}
"""Threads with open blocks, and how many each has; empty, and so one truth test per call, where nobody opted out."""


@contextlib.contextmanager
def ungraphed() -> Iterator[None]:
    """Runs every region called by this thread un-graphed, in a `with` block or, as a decorator, in a function.

    Graphs that exist stay, and are used again afterwards. Autograd runs a backward in threads of its own: one that runs
    while some thread is in such a block is un-graphed too. To be put around calls of a jitted function: inside of one
    it has no effect.
    """
    thread = threading.get_ident()
    OPEN[thread] = OPEN.get(thread, 0) + 1
    try:
        yield
    finally:
        OPEN[thread] -= 1
        if not OPEN[thread]:
            del OPEN[thread]


def is_opted_out() -> bool:
    """Whether a region called now must run un-graphed; asked only while `OPEN` has a thread."""
    return threading.get_ident() in OPEN or torch._C._current_graph_task_id() != -1
