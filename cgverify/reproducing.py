"""Runs one failure again: a program file through the fuzzer's oracles, or a reproducer script as it stands.

This is the work behind ``cgverify reproduce``; a file that cannot be read is a :class:`~cgverify.loading.CheckError`.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path as FilePath

from cgverify.fuzzing.blame import find_blame
from cgverify.fuzzing.devices import DeviceName, choose_device
from cgverify.fuzzing.executor import make_executor
from cgverify.fuzzing.invariants import Crash, Hang
from cgverify.fuzzing.program import Program, ProgramError, load_program
from cgverify.fuzzing.properties import choose_form
from cgverify.fuzzing.rendering import render_source
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import Path
from cgverify.fuzzing.targets import Target, TargetError, find_target
from cgverify.fuzzing.verdict import Verdict
from cgverify.loading import CheckError

import torch

ORACLES = {
    "structure": "the rewritten trace",
    "eager": "the trace run on {}",
    "end-to-end": "thunder.jit on {}",
}
"""The fuzzer's properties that a program is judged by, in order, and what each looks at on a device."""


@dataclass(frozen=True, slots=True)
class Reproduced:
    """What came of running a program again.

    Attributes:
        source: the program as Python.
        oracle: which oracle the verdict is from: the first that fails, else the last that could tell.
        verdict: its answer.
        blame: what flips the verdict, in a few lines; empty if that was not asked for, or cannot be told.
    """

    source: str
    oracle: str
    verdict: Verdict
    blame: str = ""


def reproduce_program(
    path: str, *, target: str = "cgverify", device: str = "auto", blame: bool = False, isolation: str = "auto"
) -> Reproduced:
    """Judge the program in a file, with its own history, on each of the ways the fuzzer runs programs.

    Args:
        path: a program file.
        target: as for the fuzzer: ``cgverify``, ``thunder``, ``none``, ``module:attribute``.
        device: ``auto``, ``emulated`` or ``cuda``.
        blame: whether to find the region with which a program that fails begins to fail.
        isolation: ``auto``, ``always`` or ``never``: whether programs are judged in a child process, which may die.

    Raises:
        CheckError: the file, the target or the device is not to be had.
    """
    try:
        program, transform = load_program(path), find_target(target)
        if transform.make is not None:
            transform.make()  # says now what is wrong with it
    except OSError as error:
        raise CheckError(f"cannot read {path}: {error.strerror}; give a program file or a reproducer") from error
    except (ProgramError, TargetError) as error:
        raise CheckError(str(error)) from error
    if device == "cuda" and not torch.cuda.is_available():
        raise CheckError("no CUDA device: torch.cuda.is_available() says no; use --device emulated")
    source = render_source(resolve_program(program))
    where = choose_device(device)
    oracle, verdict = _judge(program, transform, where, isolation)
    found = _find_blame(program, transform, where, verdict) if blame and verdict.status == "fail" else ""
    return Reproduced(source, oracle, verdict, found)


def _judge(program: Program, target: Target, device: DeviceName, isolation: str) -> tuple[str, Verdict]:
    """Ask one oracle after the other; return the first that fails, else the last that can tell."""
    executor = make_executor(isolation, target, device)
    told = "", Verdict("incomparable")
    try:
        for property, oracle in ORACLES.items():
            verdict = executor.judge(property, program)
            if not told[0] or verdict.status != "incomparable":
                told = oracle.format(device), verdict
            if verdict.status == "fail":
                break
    finally:
        executor.close()
    return told


def _find_blame(program: Program, target: Target, device: DeviceName, verdict: Verdict) -> str:
    """Ask on the direct path first, which is quicker, then through thunder.jit."""
    if verdict.invariant in (Crash.name, Hang.name):
        return f"to blame: a {verdict.invariant} would end the process that looks; run the script beside the program"
    paths: tuple[Path, ...] = ("direct", "jit")
    for path in paths:
        found = find_blame(program, target, device, path=path, form=choose_form(program))
        if found is not None:
            return found.render()
    return "to blame: nothing that running shows; the trace itself is wrong, see above"


def reproduce_script(path: str) -> int:
    """Run a reproducer with this Python and return its exit code: 0 passes, 1 reproduces, 2 cannot run here.

    A script that a signal ends has reproduced a crash.
    """
    if not FilePath(path).is_file():
        raise CheckError(f"cannot read {path}: no such file; give a program file or a reproducer")
    code = subprocess.run([sys.executable, path], check=False).returncode
    return 1 if code < 0 else code
