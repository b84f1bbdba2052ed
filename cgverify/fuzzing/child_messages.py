"""What passes between a process and the template and child that run its programs."""

from __future__ import annotations

from cgverify.fuzzing.devices import DeviceName
from cgverify.fuzzing.verdict import Verdict

import msgspec

FORK, REAP, SERVE = b"f", b"r", b"s"
"""What the template is asked: make a child (the socket to it comes along); say how the child ended; be the child."""


class Ready(msgspec.Struct, frozen=True):
    """The template has imported all that it needs, and can be forked or not."""

    can_fork: bool


class Request(msgspec.Struct, frozen=True):
    """Judge one program: names of property, target and device, and the program's file."""

    property: str
    target: str
    device: DeviceName
    program: str


class Answer(msgspec.Struct, frozen=True):
    """The verdict on one program.

    Attributes:
        verdict: None if judging raised, which is a fault in cgverify.
        error: the traceback then.
        damage: why this process can judge no further program, empty if it can.
    """

    verdict: Verdict | None
    error: str = ""
    damage: str = ""
