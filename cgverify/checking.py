"""Compiles a user's function under a transform and verifies each trace that the transform rewrote.

The transform is watched, not run: a :class:`Recorder` keeps each (before, after) pair and gives Thunder the trace from
before, so that a broken rewrite is judged and never executed. The function itself runs once, un-graphed, because
Thunder compiles on the first call.

This is the work behind ``cgverify check``; each thing that stops it is a :class:`CheckError` of one line.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import thunder
import torch
from thunder.core.trace import TraceCtx, TraceTag, from_trace
from thunder.core.transform_common import Transform

from cgverify import verifier
from cgverify.api import CUDAGraphTransform
from cgverify.diagnostics import Report
from cgverify.emulation import EmulatedCUDA

DEVICES = ("auto", "emulated", "cuda")

DTYPES = {
    "b8": torch.bool,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
}

_INPUT = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d, ]*)\]")


class CheckError(Exception):
    """The check could not be made; the message says in one line what, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What one check found.

    Attributes:
        subject: what was checked, such as ``model.py:step under cgverify on emulated``.
        reports: one report for each compiled trace, forward and backward together.
    """

    subject: str
    reports: tuple[Report, ...]

    @property
    def ok(self) -> bool:
        """Whether every rewrite was proved."""
        return all(report.ok for report in self.reports)


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
        self.pairs.append((before, after))
        return before


def check_function(
    location: str, *, target: str = "cgverify", inputs: str | None = None, device: str = "auto"
) -> Checked:
    """Verify what ``target`` makes of a function.

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
    function = _attribute(module, name, path)
    with open_device(device) as device_name:
        recorder = Recorder(load_target(target, module))
        arguments = make_inputs(inputs) if inputs is not None else _inputs_of(module, name, path)
        _compile(function, arguments, recorder, location, target)
        reports = tuple(_verify(recorder.pairs))
    return Checked(f"{location} under {target} on {device_name}", reports)


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


def load_file(path: str) -> ModuleType:
    """Import a Python file by its path, with its folder on the import path."""
    file = Path(path).resolve()
    if not file.is_file():
        raise CheckError(f"cannot read {path}: no such file; give FILE.py:FUNC")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise CheckError(f"cannot read {path}: not a Python file; give FILE.py:FUNC")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CheckError(f"cannot import {path}: {_one_line(error)}; run `python {path}` to see where") from error
    finally:
        sys.path.remove(str(file.parent))
    return module


def load_target(target: str, module: ModuleType) -> Transform:
    """Return the transform that a target names; a class or function is called without arguments."""
    if target == "cgverify":
        return CUDAGraphTransform(verify=False)
    if target == "none":
        return Transform()
    if target == "thunder":
        from thunder.transforms.cudagraph import CUDAGraphTransform as ThundersTransform

        return ThundersTransform()
    home, separator, name = target.rpartition(":")
    if separator and home.endswith(".py"):
        module = load_file(home)
    elif separator:
        try:
            module = importlib.import_module(home)
        except Exception as error:
            raise CheckError(f"cannot import target {target!r}: {_one_line(error)}; check its module's name") from error
    if not hasattr(module, name):
        raise CheckError(
            f"unknown target {target!r}: {module.__name__} has no {name!r}; "
            "choose cgverify, thunder, none, module:attribute, FILE.py:attribute, or an attribute of FILE.py"
        )
    found = getattr(module, name)
    transform = found() if callable(found) and not isinstance(found, Transform) else found
    if not isinstance(transform, Transform):
        kind = type(transform).__name__
        raise CheckError(
            f"target {target!r} is a {kind}: it must be, or return, a thunder.core.transform_common.Transform"
        )
    return transform


def make_inputs(spec: str) -> tuple[torch.Tensor, ...]:
    """Make CUDA tensors with seeded values from ``"f32[4,4] i64[4] f32[]"``."""
    parts = re.findall(r"\S*\[[^\]]*\]\S*|\S+", spec)
    generator = torch.Generator().manual_seed(0)
    return tuple(_make_input(part, generator) for part in parts)


def _make_input(part: str, generator: torch.Generator) -> torch.Tensor:
    match = _INPUT.fullmatch(part)
    dtype = DTYPES.get(match["dtype"]) if match else None
    if match is None or dtype is None:
        raise CheckError(
            f"cannot read input {part!r}: write DTYPE[SIZES], such as f32[4,4]; dtypes are {', '.join(DTYPES)}"
        )
    shape = [int(size) for size in match["shape"].split(",") if size.strip()]
    if dtype.is_floating_point:
        values = torch.randn(shape, generator=generator)
    else:
        values = torch.randint(0, 2 if dtype is torch.bool else 10, shape, generator=generator)
    return values.to(dtype).to("cuda")


def _inputs_of(module: ModuleType, name: str, path: str) -> tuple[Any, ...]:
    """Call ``FUNC_inputs("cuda")``."""
    maker = getattr(module, f"{name}_inputs", None)
    if maker is None:
        raise CheckError(f'{path} has no {name}_inputs(device): add it, or give --inputs "f32[4,4]"')
    try:
        arguments = maker("cuda")
    except Exception as error:
        raise CheckError(f"{name}_inputs failed: {_one_line(error)}; it takes a device and returns a tuple") from error
    if not isinstance(arguments, tuple):
        raise CheckError(f"{name}_inputs returned a {type(arguments).__name__}: it must return the tuple of arguments")
    return arguments


def _attribute(module: ModuleType, name: str, path: str) -> Callable[..., Any]:
    function = getattr(module, name, None)
    if not callable(function):
        candidates = ", ".join(n for n, v in vars(module).items() if callable(v) and v.__module__ == module.__name__)
        raise CheckError(f"{path} has no function {name!r}: it defines {candidates or 'none'}")
    return function  # type: ignore[no-any-return]


def _compile(
    function: Callable[..., Any], arguments: tuple[Any, ...], recorder: Recorder, location: str, target: str
) -> None:
    """Call the function once under Thunder."""
    try:
        thunder.jit(function, transforms=[recorder])(*arguments)
    except Exception as error:
        if _raised_by(error, recorder):
            raise CheckError(
                f"target {target} failed on {location}: {_one_line(error)}; nothing was verified"
            ) from error
        raise CheckError(
            f"Thunder cannot compile {location}: {_one_line(error)}; try thunder.jit on it without transforms"
        ) from error
    if not recorder.pairs:
        raise CheckError(
            f"Thunder compiled no trace for {location}: nothing to verify; pass tensors that it computes with"
        )


def _raised_by(error: Exception, recorder: Recorder) -> bool:
    """Whether the error came through the recorder, that is out of the transform."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_locals.get("self") is recorder:
            return True
        frame = frame.tb_next
    return False


def _verify(pairs: list[tuple[TraceCtx, TraceCtx]]) -> Iterator[Report]:
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


def _one_line(error: Exception) -> str:
    """Name an exception by its class and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
