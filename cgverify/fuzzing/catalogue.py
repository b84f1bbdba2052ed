"""Which kinds of fault a program and its history can express, and by which events the catalogue's sequences are drawn.

The ids are those of docs/faults.md. `fuzz/corpus/` keeps a program for each kind that can be expressed.
"""

from __future__ import annotations

from dataclasses import dataclass

from cgverify.fuzzing.program import (
    Backward,
    Call,
    Collect,
    Draw,
    Event,
    Feed,
    Forget,
    Other,
    Relayout,
    Replace,
    Reseed,
    Scribble,
    Share,
    Stream,
    Write,
)

EXPRESSIBLE = frozenset(
    [
        "A01",
        "A02",
        "A03",
        "A04",
        "A05",
        "A06",
        "A07",
        "A08",
        "A09",
        "A10",
        "A11",
        "A12",
        "A13",
        "A14",
        "A15",
        "A16",
        "A17",
        "A18",
        "A20",
        "B01",
        "B02",
        "B03",
        "B06",
        "B07",
        "B08",
        "B09",
        "B10",
        "B11",
        "C01",
        "C02",
        "C03",
        "C04",
        "C05",
        "C06",
        "C08",
        "C11",
        "R01",
        "R03",
        "R04",
        "D01",
        "D03",
        "D04",
        "D06",
        "E04",
        "E05",
        "E06",
        "E07",
        "F01",
        "F02",
        "F05",
        "F06",
        "F08",
        "F09",
        "F10",
        "G01",
        "G02",
        "G03",
        "G04",
        "G06",
        "G07",
        "G08",
        "G09",
        "G10",
        "G12",
        "H01",
        "H03",
        "H06",
        "J02",
    ]
)
"""Kinds of fault of which the generator draws programs that would show them."""

_STRAIGHT = "a program is a straight line of Thunder's own ops"
_SHAPES = "the shapes of a program are fixed"
_COST = "time and memory are measured, not compared: see docs/benchmark.md"
_DEVICES = "there is one device"
_LIBRARY = "it is a fault of a kernel or a library, which only a GPU shows"
_OWN_PROGRAM = "it needs another program than the one that is compiled"

OUT_OF_REACH: dict[str, str] = {
    "A19": _SHAPES,
    "B04": _STRAIGHT,
    "B05": _LIBRARY,
    "B12": _STRAIGHT,
    "B13": _LIBRARY,
    "B14": _STRAIGHT,
    "C07": _STRAIGHT,
    "C09": _OWN_PROGRAM,
    "C10": _OWN_PROGRAM,
    "R02": "a program does not ask for the generator's state",
    "R05": "a program draws from the default generators only",
    "R06": _STRAIGHT,
    "D02": _LIBRARY,
    "D05": _OWN_PROGRAM,
    "E01": _DEVICES,
    "E02": _DEVICES,
    "E03": _LIBRARY,
    "E08": _STRAIGHT,
    "F03": _LIBRARY,
    "F04": _LIBRARY,
    "F07": "what is drawn can be captured, or is left out: tests break captures on purpose",
    "G05": "it shows between two processes: tests compare them",
    "G11": _DEVICES,
    "H02": _SHAPES,
    "H04": _COST,
    "H05": _COST,
    "H07": _COST,
    "H08": _COST,
    "I01": _DEVICES,
    "I02": _DEVICES,
    "I03": _DEVICES,
    "J01": _OWN_PROGRAM,
}
"""The other kinds, and why no program shows them."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """One of the catalogue's call sequences.

    Attributes:
        steps: what the caller does.
        events: the kinds of event that it is drawn with; none where a history cannot hold it.
        test: the test that makes it, by file and function.
    """

    steps: str
    events: tuple[type[Event], ...]
    test: str


_HERE = "tests/fuzzing/test_histories.py::test_sequence"

SEQUENCES: dict[str, Sequence] = {
    "Q1": Sequence("f(a) f(b) f(a) f(c), all results kept", (Call, Forget), _HERE),
    "Q2": Sequence("the same tensor, written in place by the caller between calls", (Call, Write, Scribble), _HERE),
    "Q3": Sequence("f(u, v) f(u, u) f(u[:-1], u[1:]) f(v, u)", (Call, Share), _HERE),
    "Q4": Sequence("x = f(x); x = g(f(x)); results as inputs", (Call, Feed), _HERE),
    "Q5": Sequence("dense, transposed, strided, expanded, shifted; sizes 0 and 1", (Call, Relayout), _HERE),
    "Q6": Sequence("parameters written in place and given new storage", (Call, Write, Replace), _HERE),
    "Q7": Sequence(
        "two forwards and two backwards in either order, a forward without gradients between, backward of one result, "
        "backward twice, gradients kept and added up",
        (Call, Backward),
        _HERE,
    ),
    "Q8": Sequence("draws, seeding, draws, the caller's own draws between", (Call, Reseed, Draw), _HERE),
    "Q9": Sequence(
        "many sizes, then repeats; a step counter", (), "tests/faults/test_h.py::test_H02_a_capture_for_every_size"
    ),
    "Q10": Sequence(
        "f and g in turn, of one pool; g dropped, memory allocated, f again", (Call, Other, Collect), _HERE
    ),
    "Q11": Sequence("another stream per call; another thread", (Call, Stream), _HERE),
    "Q12": Sequence("inside a capture of the caller's, cold and warm; then un-graphed again", (Call,), _HERE),
    "Q13": Sequence("an error in a region, then other regions", (), "tests/faults/test_f.py::test_F07_the_body_fails"),
    "Q14": Sequence(
        "NaNs in new and freed memory before each replay",
        (),
        "tests/fuzzing/test_histories.py::test_memory_is_poisoned",
    ),
    "Q15": Sequence(
        "another PYTHONHASHSEED",
        (),
        "tests/unit/test_trace_texts.py::test_two_builds_give_the_same_text_whatever_the_hash_seed",
    ),
}
"""The catalogue's sequences of calls, by id."""
