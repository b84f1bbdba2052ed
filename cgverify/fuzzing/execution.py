"""Runs one side of a comparison: a function, called as a history says, and a record of all that a caller can see.

The reference and the function under test are run one after the other, from the same seeds, with tensors of their own.
What is compared is the record, so neither side can disturb the other.
"""

from __future__ import annotations

from cgverify.fuzzing.arguments import draw_values
from cgverify.fuzzing.caller import Caller, spread_seeds
from cgverify.fuzzing.program import Call, History
from cgverify.fuzzing.records import CallRecord, Record, Side, Subject, first_line
from cgverify.fuzzing.resolution import Resolved

__all__ = [
    "CallRecord",
    "Record",
    "Side",
    "Subject",
    "first_line",
    "prepare_values",
    "run_history",
    "spread_seeds",
]


def prepare_values(resolved: Resolved, history: History) -> None:
    """Draw the values of all calls now: later, inside the emulation, drawing them would cost several times more."""
    for event in history:
        if isinstance(event, Call) and event.seeds:
            for entry, seed in zip(resolved.inputs, spread_seeds(event.seeds, len(resolved.inputs)), strict=True):
                draw_values(entry, seed)
    for entry in resolved.inputs:
        draw_values(entry, entry.seed)


def run_history(side: Side, resolved: Resolved, history: History) -> Record:
    """Run a history on one side, from seed 0 and fresh tensors."""
    return Caller(side, resolved).run(history)
