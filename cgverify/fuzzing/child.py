"""What a child does: judges one program after another, as it is asked (see :mod:`.template`)."""

from __future__ import annotations

import socket
import traceback

from cgverify.fuzzing.child_messages import Answer, Request
from cgverify.fuzzing.devices import find_damage
from cgverify.fuzzing.frames import receive, send
from cgverify.fuzzing.program import decode_program
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.targets import find_target

import torch


def serve(channel: socket.socket) -> None:
    """Judge what is asked until the other side is gone or the device can no longer be used."""
    torch.set_num_threads(1)
    while (request := receive(channel, Request)) is not None:
        answer = _answer(request)
        send(channel, answer)
        if answer.damage:
            return


def _answer(request: Request) -> Answer:
    try:
        program = decode_program(request.program)
        verdict = PROPERTIES[request.property].judge(program, find_target(request.target), request.device)
    except Exception:  # sent on, and raised again where the program came from
        return Answer(None, traceback.format_exc())
    return Answer(verdict, damage=find_damage() if request.device == "cuda" else "")
