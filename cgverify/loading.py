"""Loads what a command line names: a user's file, a function in it, its arguments, a transform.

Whatever is missing or broken is a :class:`CheckError` of one line.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from cgverify.api import CUDAGraphTransform
from cgverify.fuzzing.targets import TargetError, find_target

import torch
from thunder.core.transform_common import Transform

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

_INPUT = re.compile(r"(?P<dtype>\w+)\[(?P<shape> *|(?: *\d+ *,)* *\d+ *)\]")


class CheckError(Exception):
    """The check could not be made; the message says in one line what, why, and what to do."""


@contextmanager
def user_code(what: str, remedy: str) -> Iterator[None]:
    """Turns what the user's code raises into a :class:`CheckError`, SystemExit too: the exit code is ours to give."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, CheckError):
            raise
        raise CheckError(f"{what}: {one_line(error)}; {remedy}") from error


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
        with user_code(f"cannot import {path}", f"run `python {path}` to see where"):
            spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module


def load_function(module: ModuleType, name: str, path: str) -> Callable[..., Any]:
    """Return the function, module or other callable that a file calls ``name``."""
    function = getattr(module, name, None)
    if not callable(function):
        candidates = ", ".join(n for n, v in vars(module).items() if callable(v) and v.__module__ == module.__name__)
        raise CheckError(f"{path} has no function {name!r}: it defines {candidates or 'none'}")
    return function  # type: ignore[no-any-return]


def load_inputs(module: ModuleType, name: str, path: str) -> tuple[Any, ...]:
    """Call ``FUNC_inputs("cuda")``."""
    maker = getattr(module, f"{name}_inputs", None)
    if maker is None:
        raise CheckError(f'{path} has no {name}_inputs(device): add it, or give --inputs "f32[4,4]"')
    with user_code(f"{name}_inputs failed", "it takes a device and returns a tuple"):
        arguments = maker("cuda")
    if not isinstance(arguments, tuple):
        raise CheckError(f"{name}_inputs returned a {type(arguments).__name__}: it must return the tuple of arguments")
    return arguments


def load_target(target: str, module: ModuleType) -> Transform:
    """Return the transform that a target names; a class or function is called without arguments.

    Besides the targets of the fuzzer, a target may be ``FILE.py:attribute``, or an attribute of ``module``.
    """
    if target == "cgverify":
        # unverified, since the check is made here, and its findings are reported and not raised
        return CUDAGraphTransform(verify=False)
    home, separator, name = target.rpartition(":")
    if home.endswith(".py"):
        module = load_file(home)
    elif separator or target in ("thunder", "none"):
        try:
            make = find_target(target).make
            return make() if make is not None else Transform()
        except TargetError as error:
            raise CheckError(str(error)) from error
    if not hasattr(module, name):
        raise CheckError(
            f"unknown target {target!r}: {module.__name__} has no {name!r}; "
            "choose cgverify, thunder, none, module:attribute, FILE.py:attribute, or an attribute of FILE.py"
        )
    found = getattr(module, name)
    with user_code(f"cannot make target {target!r}", "it must be a transform, or make one without arguments"):
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
    sizes = match["shape"].strip()
    with user_code(f"cannot make input {part!r}", "give sizes that fit into memory"):
        shape = [int(size) for size in sizes.split(",")] if sizes else []
        if dtype.is_floating_point:
            values = torch.randn(shape, generator=generator)
        else:
            values = torch.randint(0, 2 if dtype is torch.bool else 10, shape, generator=generator)
        return values.to(dtype).to("cuda")


def one_line(error: BaseException) -> str:
    """Name an exception by its class and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip(' .:;')}" if lines else type(error).__name__
