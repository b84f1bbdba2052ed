"""The process that runs programs: `python -m cgverify.fuzzing.template SOCKET DEVICE`, started by :mod:`.children`.

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

from cgverify.fuzzing.child_messages import FORK, REAP, SERVE, Ready
from cgverify.fuzzing.frames import send
from cgverify.fuzzing.lifeline import die_with_parent

import torch

NOT_INITIALIZED = 3
"""What the CUDA driver answers to everything before it is initialised."""


def _import_quietly() -> None:
    """Import what a program needs, without touching a device.

    Thunder, when it is imported, asks CUDA whether a capture is going on, which initialises the driver.
    """
    asks = torch.cuda.graphs.is_current_stream_capturing
    torch.cuda.graphs.is_current_stream_capturing = lambda: False
    try:
        import_module("cgverify.fuzzing.child")
        import_module("cgverify.api")  # the transform, which is otherwise imported when it is first used
    finally:
        torch.cuda.graphs.is_current_stream_capturing = asks


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
        die_with_parent()
        faulthandler.enable(all_threads=False)
        with socket.socket(fileno=channel_number) as channel:
            import_module("cgverify.fuzzing.child").serve(channel)
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
    _import_quietly()
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
