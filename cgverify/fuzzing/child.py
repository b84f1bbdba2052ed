"""The process that runs programs: `python -m cgverify.fuzzing.child SOCKET DEVICE`, started by :mod:`.children` alone.

It is two processes. The *template* imports all that a program needs and never touches a device; whenever it is asked,
it forks a *child*, ready at once, that judges one program after another until it dies or is told to go. So a child that
a program kills costs milliseconds, not an import of PyTorch and Thunder.

A process in which something has initialised the CUDA driver, if only to count devices, cannot be forked: CUDA does
not work in the child. A template that finds that an import has done so says it, and becomes the child itself.

The template ends with the process that started it, and takes the child along.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import logging
import os
import resource
import signal
import socket
import sys
import traceback
from importlib import import_module
from typing import NoReturn

from cgverify.fuzzing.devices import DeviceName, find_damage
from cgverify.fuzzing.frames import receive, send
from cgverify.fuzzing.program import decode_program
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.targets import find_target
from cgverify.fuzzing.verdict import Verdict

import msgspec
import torch

FORK, REAP, SERVE = b"f", b"r", b"s"
"""What the template is asked: make a child (the socket to it comes along); say how the child ended; be the child."""

NOT_INITIALIZED = 3
"""What the CUDA driver answers to everything before it is initialised."""


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


def _die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies; elsewhere it ends at its next message."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


def _can_fork(device: str) -> bool:
    """Whether the device can be used in a child of this process."""
    if device != "cuda":
        return True
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    return bool(driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == NOT_INITIALIZED)


def _fork(channel_number: int, control: socket.socket) -> int:
    pid = os.fork()
    if pid:
        os.close(channel_number)
        return pid
    try:
        control.close()
        _be_child(channel_number)
    finally:
        # The template's own way out, through its exit handlers, is not the child's.
        os._exit(1)


def _be_child(channel_number: int) -> NoReturn:
    """Judge programs, then end without the exit handlers of whatever a program has broken."""
    code = 1
    try:
        _die_with_parent()
        faulthandler.enable(all_threads=False)
        with socket.socket(fileno=channel_number) as channel:
            serve(channel)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(number: int, device: str) -> None:
    """Be a template for a device, on the socket with this file descriptor."""
    logging.getLogger("cgverify").setLevel(logging.ERROR)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import_module("cgverify.api")  # the transform, which is otherwise imported when it is first used
    # What was imported is never garbage: collections in the child, of which judging makes many, need not look at it.
    gc.collect()
    gc.freeze()
    child = 0
    with socket.socket(fileno=number) as control:
        send(control, Ready(_can_fork(device)))
        while True:
            asked, files, _, _ = socket.recv_fds(control, 1, 1)
            if asked == FORK:
                child = _fork(files[0], control)
                send(control, child)
            elif asked == SERVE:
                control.detach()
                _be_child(files[0])
            elif asked == REAP:
                _, status = os.waitpid(child, 0)
                child = 0
                send(control, os.waitstatus_to_exitcode(status))
            else:
                break
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
