"""The property that every program must have, and the verdict on one program.

`check` runs a program's history on Thunder without graphs and on Thunder with the target, and demands that a caller
cannot tell them apart: raw bits, dtypes, shapes, strides, devices, requires_grad, shared memory, inputs written and
inputs not to be written, gradients, generator positions, and results of earlier calls looked at again at the end.
Against eager PyTorch, Thunder itself is judged, never the target: a difference there is a base fault, reported apart.

It answers `incomparable`, never silently `ok`, where nothing can be said: Thunder refuses the program, both sides
raise, or the un-graphed function differs from itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from cgverify.diagnostics import UngraphedWarning, VerificationError
from cgverify.fuzzing.arguments import make_inputs
from cgverify.fuzzing.devices import DeviceName, find_damage, open_device
from cgverify.fuzzing.execution import first_line, prepare_values
from cgverify.fuzzing.invariants import (
    BrokenStructure,
    CaptureGivenUp,
    FalseAlarm,
    TransformFailed,
)
from cgverify.fuzzing.program import History, Program
from cgverify.fuzzing.resolution import Resolved, resolve_program
from cgverify.fuzzing.sides import (
    Path,
    forget_sources,
    jit_side,
)
from cgverify.fuzzing.structure import count_regions, find_faults
from cgverify.fuzzing.targets import Target
from cgverify.fuzzing.tracing import Form
from cgverify.fuzzing.trial import Fails, Refused, Trial, build, transform_trace
from cgverify.fuzzing.verdict import Facts, Verdict, assert_holds
from cgverify.watching import WatchedTransform

from thunder.core.trace import TraceCtx

__all__ = ["Facts", "Verdict", "assert_holds", "check", "check_structure"]


def check(
    program: Program,
    history: History | None,
    target: Target,
    device: DeviceName,
    *,
    path: Path = "direct",
    form: Form = "dict",
    eager: bool = True,
) -> Verdict:
    """Judge one program.

    Args:
        program: the program.
        history: the calls to make; None for the program's own.
        target: the transform under test.
        device: `cuda` or `emulated`.
        path: `direct` builds the trace, `jit` goes through `thunder.jit` and compares gradients too.
        form: how RETURN looks on the direct path.
        eager: whether to judge Thunder without graphs against eager PyTorch too; always so with target `none`.

    Raises:
        ProgramError: the program names what does not exist.
    """
    resolved = resolve_program(program)
    events = program.history if history is None else history
    prepare_values(resolved, events)
    try:
        # A warning is no part of a verdict, also where the caller's filters turn warnings into errors.
        with _quiet() as warned, open_device(device) as counters:
            trial = Trial(resolved, events, path, form)
            if error := trial.reference.calls[0].error if trial.reference.calls else "":
                raise Refused(error)
            if target.make is None:
                return trial.judge_base()
            verdict = trial.judge_target(target.make())
            if verdict.status == "ok" and (given_up := _find_given_up(warned)):
                verdict = replace(verdict, status="fail", invariant=CaptureGivenUp.name, evidence=given_up)
            facts = replace(verdict.facts, replays=counters.replays)
            # in a process that the target has damaged nothing can be said of Thunder without graphs
            if eager and verdict.status != "incomparable" and not find_damage():
                base = trial.judge_base()
                fault = base.evidence if base.status == "fail" else ""
                facts = replace(facts, base_tier=base.tier if base.status != "incomparable" else "", base_fault=fault)
        return replace(verdict, facts=facts)
    except Refused as refusal:
        return Verdict("incomparable", evidence=f"Thunder without graphs raises {refusal}")
    finally:
        forget_sources()


def check_structure(program: Program, target: Target, *, form: Form = "dict", path: Path = "direct") -> Verdict:
    """Judge the traces that the target makes of a program: valid text, and the interface they had before.

    The static oracle of :mod:`cgverify.fuzzing.structure`; a target that verifies its own rewrites also runs its
    verifier. On the direct path nothing runs; on the `jit` path `thunder.jit` makes the traces, backward included, and
    one call is made on the emulation.
    """
    resolved = resolve_program(program)
    if target.make is None:
        return Verdict("incomparable", evidence="target none transforms nothing", tier="static")
    transform = target.make()
    try:
        if path == "jit":
            pairs = _pairs_of_jit(resolved, transform)
        else:
            before = build(resolved, form)
            pairs = [(before, transform_trace(transform, before))]
        if faults := [fault for before, after in pairs for fault in find_faults(before, after)]:
            raise Fails(BrokenStructure, "; ".join(faults[:3]))
    except Fails as failure:
        return Verdict("fail", failure.invariant.name, None, str(failure), "static")
    except Refused as refusal:
        return Verdict("incomparable", evidence=f"Thunder without graphs raises {refusal}", tier="static")
    finally:
        forget_sources()
    return Verdict("ok", tier="static", facts=Facts(regions=sum(count_regions(after) for _, after in pairs)))


def _pairs_of_jit(resolved: Resolved, transform: Any) -> list[tuple[TraceCtx, TraceCtx]]:
    """Return each trace that thunder.jit hands to the transform, and what the transform makes of it."""
    watched = WatchedTransform(transform)
    layouts = [entry.layout for entry in resolved.inputs]
    with _quiet(), open_device("emulated"):
        side, _ = jit_side(resolved, watched)
        function, inputs = side(make_inputs(resolved.inputs, [entry.seed for entry in resolved.inputs], layouts))
        try:
            function(*inputs)
        except VerificationError as error:
            raise Fails(FalseAlarm, str(error)) from error
        except Exception as error:  # the call is not what is judged here, unless it made no trace
            if not watched.rewritten:
                raise Fails(TransformFailed, first_line(error)) from error
    return watched.rewritten


@contextmanager
def _quiet() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings, so that none is shown or turned into an error."""
    with warnings.catch_warnings(record=True) as collected:
        warnings.simplefilter("always")
        yield collected


def _find_given_up(warned: list[warnings.WarningMessage]) -> str:
    """Return the first warning that a region runs un-graphed, or an empty string."""
    messages = (str(warning.message) for warning in warned if issubclass(warning.category, UngraphedWarning))
    return next(messages, "")
