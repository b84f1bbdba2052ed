"""Runs one failure again: a program file through the fuzzer's oracles, or a reproducer script as it stands.

This is the work behind ``cgverify reproduce``; a file that cannot be read is a :class:`~cgverify.loading.CheckError`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath

from cgverify.fuzzing.blame import find_blame
from cgverify.fuzzing.devices import choose_device
from cgverify.fuzzing.oracles import Verdict, check, check_structure
from cgverify.fuzzing.program import Program, ProgramError, load_program
from cgverify.fuzzing.properties import choose_form
from cgverify.fuzzing.rendering import render_source
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import Path
from cgverify.fuzzing.targets import Target, TargetError, find_target
from cgverify.loading import CheckError

import torch


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


def reproduce_program(path: str, *, target: str = "cgverify", device: str = "auto", blame: bool = False) -> Reproduced:
    """Judge the program in a file, with its own history, on each of the ways the fuzzer runs programs.

    Args:
        path: a program file.
        target: as for the fuzzer: ``cgverify``, ``thunder``, ``none``, ``module:attribute``.
        device: ``auto``, ``emulated`` or ``cuda``.
        blame: whether to find the region with which a program that fails begins to fail.

    Raises:
        CheckError: the file, the target or the device is not to be had.
    """
    try:
        program, transform = load_program(path), find_target(target)
    except OSError as error:
        raise CheckError(f"cannot read {path}: {error.strerror}; give a program file or a reproducer") from error
    except (ProgramError, TargetError) as error:
        raise CheckError(str(error)) from error
    if device == "cuda" and not torch.cuda.is_available():
        raise CheckError("no CUDA device: torch.cuda.is_available() says no; use --device emulated")
    source = render_source(resolve_program(program))
    told: tuple[str, Verdict] | None = None
    for oracle, judge in _oracles(program, transform, device):
        verdict = judge()
        if told is None or verdict.status != "incomparable":
            told = oracle, verdict
        if verdict.status == "fail":
            break
    assert told is not None  # there are three oracles
    found = _find_blame(program, transform, device) if blame and told[1].status == "fail" else ""
    return Reproduced(source, *told, found)


def _find_blame(program: Program, target: Target, device: str) -> str:
    """Ask on the direct path first, which is quicker, then through thunder.jit."""
    paths: tuple[Path, ...] = ("direct", "jit")
    for path in paths:
        found = find_blame(program, target, choose_device(device), path=path, form=choose_form(program))
        if found is not None:
            return found.render()
    return "to blame: nothing that running shows; the trace itself is wrong, see above"


def _oracles(program: Program, target: Target, device: str) -> Iterator[tuple[str, Callable[[], Verdict]]]:
    where, form = choose_device(device), choose_form(program)
    yield "the rewritten trace", lambda: check_structure(program, target, form=form)
    yield f"the trace run on {where}", lambda: check(program, None, target, where, form=form)
    yield f"thunder.jit on {where}", lambda: check(program, None, target, where, path="jit")


def reproduce_script(path: str) -> int:
    """Run a reproducer with this Python and return its exit code: 0 passes, 1 reproduces, 2 cannot run here.

    A script that a signal ends has reproduced a crash.
    """
    if not FilePath(path).is_file():
        raise CheckError(f"cannot read {path}: no such file; give a program file or a reproducer")
    code = subprocess.run([sys.executable, path], check=False).returncode
    return 1 if code < 0 else code
