"""Compiles a user's function under a transform and verifies each trace that the transform rewrote.

The transform is watched, not run: each (before, after) pair is kept, and Thunder goes on with the trace from before, so
that a broken rewrite is judged and never executed. The function itself runs once, un-graphed, because Thunder compiles
on the first call.

This is the work behind ``cgverify check``; each thing that stops it is a :class:`CheckError` of one line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cgverify.diagnostics import Report
from cgverify.emulation import EmulatedCUDA
from cgverify.fuzzing.structure import count_regions
from cgverify.loading import CheckError, load_file, load_function, load_inputs, load_target, make_inputs, one_line
from cgverify.verifier import verify_each_trace
from cgverify.watching import Pair, WatchedTransform

import thunder
import torch
from thunder.core.interpreter import InterpreterError
from thunder.core.transform_common import Transform

DEVICES = ("auto", "emulated", "cuda")


@dataclass(frozen=True, slots=True)
class Checked:
    """What one check found.

    Attributes:
        subject: what was checked, such as ``model.py:step under cgverify on emulated``.
        reports: one report for each compiled trace, forward or backward.
        regions: how many CUDA-graph regions the rewritten traces have; without one there was little to prove.
    """

    subject: str
    reports: tuple[Report, ...]
    regions: int

    @property
    def ok(self) -> bool:
        """Whether every rewrite was proved."""
        return all(report.ok for report in self.reports)


@dataclass(frozen=True, slots=True)
class Watched:
    """What a transform made of a function.

    Attributes:
        subject: what was compiled, such as ``model.py:step under cgverify on emulated``.
        pairs: the (before, after) traces, in the order in which Thunder asked.
        transform: the transform that was watched.
    """

    subject: str
    pairs: tuple[Pair, ...]
    transform: Transform


def check_function(
    location: str, *, target: str = "cgverify", inputs: str | None = None, device: str = "auto"
) -> Checked:
    """Verify what ``target`` makes of a function; see `watch_function` for the arguments.

    Raises:
        CheckError: something is missing or cannot be run.
    """
    watched = watch_function(location, target=target, inputs=inputs, device=device)
    regions = sum(count_regions(after) for _, after in watched.pairs)
    return Checked(watched.subject, tuple(verify_each_trace(watched.pairs)), regions)


def watch_function(
    location: str, *, target: str = "cgverify", inputs: str | None = None, device: str = "auto"
) -> Watched:
    """Compile a function under a transform, whose rewrites are kept and not executed.

    Args:
        location: ``FILE.py:FUNC``, a function or a module, which is moved to the device; the arguments come from
            ``FUNC_inputs(device)`` in the same file.
        target: ``cgverify``, ``thunder``, ``none``, ``module:attribute``, ``FILE.py:attribute``, or an attribute of
            FILE.py.
        inputs: ``"f32[4,4] i64[4]"``: arguments in place of those of ``FUNC_inputs``.
        device: ``cuda``, ``emulated``, or ``auto``: a GPU where there is one.

    Raises:
        CheckError: something is missing or cannot be run.
    """
    path, separator, name = location.rpartition(":")
    if not separator or not name.isidentifier():
        raise CheckError(f"cannot read {location!r}: it names no function; give FILE.py:FUNC")
    module = load_file(path)
    function = load_function(module, name, path)
    with open_device(device) as device_name:
        transform = load_target(target, module)
        recorder = WatchedTransform(transform, runs=False)
        if isinstance(function, torch.nn.Module):  # made when its file was read, perhaps before there was a device
            function = function.to("cuda")
        arguments = make_inputs(inputs) if inputs is not None else load_inputs(module, name, path)
        given = f"{name}_inputs" if inputs is None else f"--inputs {inputs!r}"
        _check_arguments(
            function.forward if isinstance(function, torch.nn.Module) else function, arguments, location, given
        )
        _compile(function, arguments, recorder, location, target)
    return Watched(f"{location} under {target} on {device_name}", tuple(recorder.rewritten), transform)


@contextmanager
def open_device(device: str) -> Iterator[str]:
    """Enter the device on which "cuda" tensors live, and say which it is: ``cuda`` or ``emulated``."""
    if device not in DEVICES:
        raise CheckError(f"unknown device {device!r}: choose one of {', '.join(DEVICES)}")
    if device == "cuda" and not torch.cuda.is_available():
        raise CheckError(
            "no CUDA device: torch.cuda.is_available() says no; use --device emulated, or see cgverify doctor"
        )
    if device == "cuda" or (device == "auto" and torch.cuda.is_available()):
        yield "cuda"
    else:
        with EmulatedCUDA():
            yield "emulated"


def _compile(
    function: Callable[..., Any], arguments: tuple[Any, ...], recorder: WatchedTransform, location: str, target: str
) -> None:
    """Call the function once under Thunder."""
    try:
        thunder.jit(function, transforms=[recorder])(*arguments)
    except (Exception, SystemExit) as error:
        cause = _unwrap(error)
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        if _raised_by(error, recorder):
            found = f"target {target} failed on {location}: {one_line(cause)}; nothing was verified"
        elif isinstance(cause, SystemExit):
            found = f"{location} ended the process, with {cause!r}: nothing was verified; leave sys.exit to its callers"
        else:
            found = f"Thunder cannot compile {location}: {one_line(cause)}; try thunder.jit on it without transforms"
        raise CheckError(found) from error
    if not recorder.rewritten:
        raise CheckError(
            f"Thunder compiled no trace for {location}: nothing to verify; pass tensors that it computes with"
        )


def _unwrap(error: BaseException) -> BaseException:
    """What Thunder's interpreter was stopped by: it wraps an exit and an interrupt in an error of its own."""
    while isinstance(error, InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _check_arguments(function: Callable[..., Any], arguments: tuple[Any, ...], location: str, given: str) -> None:
    """Refuse arguments that the function does not take, in words that name both."""
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        inspect.signature(called, follow_wrapped=False).bind(*arguments)
    except TypeError as error:
        count = f"{len(arguments)} argument{'' if len(arguments) == 1 else 's'}"
        raise CheckError(f"{location} does not take the {count} of {given}: {error}; make them fit") from error
    except ValueError:  # a callable without a signature: the call itself will tell
        return


def _raised_by(error: BaseException, recorder: WatchedTransform) -> bool:
    """Whether the error came through the recorder, that is out of the transform."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_locals.get("self") is recorder:
            return True
        frame = frame.tb_next
    return False
