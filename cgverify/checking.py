"""Compiles a user's function under a transform and verifies each trace that the transform rewrote.

The transform is watched, not run: a :class:`Recorder` keeps each (before, after) pair and gives Thunder the trace from
before, so that a broken rewrite is judged and never executed. The function itself runs once, un-graphed, because
Thunder compiles on the first call.

This is the work behind ``cgverify check``; each thing that stops it is a :class:`CheckError` of one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cgverify import verifier
from cgverify.diagnostics import Report
from cgverify.emulation import EmulatedCUDA
from cgverify.fuzzing.structure import count_regions
from cgverify.loading import CheckError, load_file, load_function, load_inputs, load_target, make_inputs, one_line

import thunder
import torch
from thunder.core.trace import TraceCtx, TraceTag, from_trace
from thunder.core.transform_common import Transform

DEVICES = ("auto", "emulated", "cuda")


@dataclass(frozen=True, slots=True)
class Checked:
    """What one check found.

    Attributes:
        subject: what was checked, such as ``model.py:step under cgverify on emulated``.
        reports: one report for each compiled trace, forward and backward together.
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
    pairs: tuple[tuple[TraceCtx, TraceCtx], ...]
    transform: Transform


class Recorder(Transform):
    """Runs another transform, keeps what it was given and what it made of it, and changes nothing.

    Attributes:
        pairs: the (before, after) traces, in the order in which Thunder asked.
    """

    def __init__(self, transform: Transform) -> None:
        self._transform = transform
        self.pairs: list[tuple[TraceCtx, TraceCtx]] = []

    def transform_traces_pre_prologue(self, *args: Any, **kwargs: Any) -> Any:
        """Pass on: it comes before the trace that is rewritten."""
        return self._transform.transform_traces_pre_prologue(*args, **kwargs)

    def transform_module(self, model: Any) -> None:
        """Pass on."""
        self._transform.transform_module(model)

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """Record the pair and return the trace from before."""
        before = _copy(computation_trace)
        after = self._transform.transform_trace_post_optimization(computation_trace, **kwargs)
        if not isinstance(after, TraceCtx):
            raise TypeError(f"it returned {after!r} for the trace `{before.siginfo().name}`, which is no trace")
        self.pairs.append((before, after))
        return before


def check_function(
    location: str, *, target: str = "cgverify", inputs: str | None = None, device: str = "auto"
) -> Checked:
    """Verify what ``target`` makes of a function; see `watch_function` for the arguments.

    Raises:
        CheckError: something is missing or cannot be run.
    """
    watched = watch_function(location, target=target, inputs=inputs, device=device)
    regions = sum(count_regions(after) for _, after in watched.pairs)
    return Checked(watched.subject, tuple(verify_pairs(watched.pairs)), regions)


def watch_function(
    location: str, *, target: str = "cgverify", inputs: str | None = None, device: str = "auto"
) -> Watched:
    """Compile a function under a transform, whose rewrites are kept and not executed.

    Args:
        location: ``FILE.py:FUNC``; the arguments come from ``FUNC_inputs(device)`` in the same file.
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
        recorder = Recorder(transform)
        arguments = make_inputs(inputs) if inputs is not None else load_inputs(module, name, path)
        _compile(function, arguments, recorder, location, target)
    return Watched(f"{location} under {target} on {device_name}", tuple(recorder.pairs), transform)


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
    function: Callable[..., Any], arguments: tuple[Any, ...], recorder: Recorder, location: str, target: str
) -> None:
    """Call the function once under Thunder."""
    try:
        thunder.jit(function, transforms=[recorder])(*arguments)
    except (Exception, SystemExit) as error:
        if _raised_by(error, recorder):
            raise CheckError(
                f"target {target} failed on {location}: {one_line(error)}; nothing was verified"
            ) from error
        raise CheckError(
            f"Thunder cannot compile {location}: {one_line(error)}; try thunder.jit on it without transforms"
        ) from error
    if not recorder.pairs:
        raise CheckError(
            f"Thunder compiled no trace for {location}: nothing to verify; pass tensors that it computes with"
        )


def _raised_by(error: BaseException, recorder: Recorder) -> bool:
    """Whether the error came through the recorder, that is out of the transform."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_locals.get("self") is recorder:
            return True
        frame = frame.tb_next
    return False


def verify_pairs(pairs: Sequence[tuple[TraceCtx, TraceCtx]]) -> Iterator[Report]:
    """Verify each forward trace alone, or together with the backward trace that Thunder sent after it."""
    waiting: tuple[TraceCtx, TraceCtx] | None = None
    for pair in pairs:
        if waiting is not None and TraceTag.BACKWARD in pair[0].tags:
            yield verifier.verify_pair(forward=waiting, backward=pair)
            waiting = None
            continue
        if waiting is not None:
            yield verifier.verify(*waiting)
        waiting = pair
    if waiting is not None:
        yield verifier.verify(*waiting)


def _copy(trace: TraceCtx) -> TraceCtx:
    """Copy a trace and its bound symbols, so that a transform that edits in place cannot touch the original."""
    copy = from_trace(trace)
    copy.bound_symbols.extend(bsym.from_bsym() for bsym in trace.bound_symbols)
    copy.set_provenance(trace.get_provenance())
    return copy
