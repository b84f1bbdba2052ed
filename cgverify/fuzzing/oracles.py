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

from cgverify.diagnostics import VerificationError
from cgverify.fuzzing.anchor import look_up, widen
from cgverify.fuzzing.arguments import make_inputs
from cgverify.fuzzing.comparison import Difference, compare_records, is_near
from cgverify.fuzzing.devices import DeviceName, find_damage, open_device
from cgverify.fuzzing.execution import Record, first_line, prepare_values, run_history
from cgverify.fuzzing.invariants import (
    BaseFault,
    Broken,
    BrokenStructure,
    CaptureGivenUp,
    FalseAlarm,
    ProcessDamaged,
    TransformFailed,
)
from cgverify.fuzzing.program import History, Program
from cgverify.fuzzing.resolution import Resolved, resolve_program
from cgverify.fuzzing.sides import (
    Path,
    WatchedTransform,
    apply_transform,
    direct_side,
    eager_side,
    forget_sources,
    jit_side,
)
from cgverify.fuzzing.structure import count_regions, find_faults
from cgverify.fuzzing.targets import Target
from cgverify.fuzzing.tracing import Form, build_trace
from cgverify.fuzzing.verdict import Facts, Verdict, assert_holds

import torch
from thunder.core.trace import TraceCtx

__all__ = ["Facts", "Verdict", "assert_holds", "check", "check_structure"]


class _Fails(Exception):
    """Ends a check early with a broken invariant."""

    def __init__(self, invariant: type[Broken], evidence: str) -> None:
        super().__init__(evidence)
        self.invariant = invariant


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
            bench = _Bench(resolved, events, path, form)
            if error := bench.reference.calls[0].error if bench.reference.calls else "":
                raise _Refused(error)
            if target.make is None:
                return bench.judge_base()
            verdict = bench.judge_target(target.make())
            if verdict.status == "ok" and (given_up := _find_given_up(warned)):
                verdict = replace(verdict, status="fail", invariant=CaptureGivenUp.name, evidence=given_up)
            facts = replace(verdict.facts, replays=counters.replays)
            if eager and verdict.status != "incomparable":
                base = bench.judge_base()
                fault = base.evidence if base.status == "fail" else ""
                facts = replace(facts, base_tier=base.tier if base.status != "incomparable" else "", base_fault=fault)
        return replace(verdict, facts=facts)
    except _Refused as refusal:
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
            before = _build(resolved, form)
            pairs = [(before, _transform(transform, before))]
        if faults := [fault for before, after in pairs for fault in find_faults(before, after)]:
            raise _Fails(BrokenStructure, "; ".join(faults[:3]))
    except _Fails as failure:
        return Verdict("fail", failure.invariant.name, None, str(failure), "static")
    except _Refused as refusal:
        return Verdict("incomparable", evidence=f"Thunder without graphs raises {refusal}", tier="static")
    finally:
        forget_sources()
    return Verdict("ok", tier="static", facts=Facts(regions=sum(count_regions(after) for _, after in pairs)))


class _Refused(Exception):
    """Ends a check early because Thunder without graphs cannot run the program."""


def _build(resolved: Resolved, form: Form) -> TraceCtx:
    try:
        return build_trace(resolved, form)
    except Exception as error:  # Thunder's own checks refuse some programs that eager PyTorch runs
        raise _Refused(first_line(error)) from error


def _transform(transform: Any, trace: TraceCtx) -> TraceCtx:
    """Run the target's transform, telling a false alarm of its verifier from a failure of its own."""
    try:
        return apply_transform(transform, trace)
    except VerificationError as error:
        raise _Fails(FalseAlarm, str(error)) from error
    except Exception as error:  # whatever the transform under test raises is a finding
        raise _Fails(TransformFailed, first_line(error)) from error


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
            raise _Fails(FalseAlarm, str(error)) from error
        except Exception as error:  # the call is not what is judged here, unless it made no trace
            if not watched.pairs:
                raise _Fails(TransformFailed, first_line(error)) from error
    return watched.pairs


@contextmanager
def _quiet() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings, so that none is shown or turned into an error."""
    with warnings.catch_warnings(record=True) as collected:
        warnings.simplefilter("always")
        yield collected


def _find_given_up(warned: list[warnings.WarningMessage]) -> str:
    """Return the first warning that something runs un-graphed, or an empty string."""
    messages = [str(warning.message) for warning in warned if issubclass(warning.category, RuntimeWarning)]
    return next((message for message in messages if "runs un-graphed" in message), "")


class _Bench:
    """One program on the bench: Thunder without graphs, its record, and what is judged by it."""

    def __init__(self, resolved: Resolved, history: History, path: Path, form: Form) -> None:
        self.resolved, self.history, self.path, self.form = resolved, history, path, form
        self.trace = _build(resolved, form) if path == "direct" else None
        self.side = jit_side(resolved)[0] if self.trace is None else direct_side(resolved, form, self.trace)
        self.reference = run_history(self.side, resolved, history)

    def judge_target(self, transform: Any) -> Verdict:
        """Judge the transform against Thunder without graphs."""
        try:
            tested, regions = self._run_target(transform)
            facts = _facts(self.resolved, self.reference, regions)
            difference = next(compare_records(self.reference, tested), None)
            if difference is not None:
                return self._judge_difference(difference, facts)
            if damage := find_damage():
                raise _Fails(ProcessDamaged, f"afterwards, {damage}")
        except _Fails as failure:
            return Verdict("fail", failure.invariant.name, None, str(failure))
        return Verdict("ok", tier="T1", facts=facts)

    def judge_base(self) -> Verdict:
        """Judge Thunder without graphs against eager PyTorch."""
        resolved = self.resolved
        eager = run_history(eager_side(resolved, self.path), resolved, self.history)
        if eager.calls and eager.calls[0].error:
            return Verdict("incomparable", evidence=f"eager PyTorch raises {eager.calls[0].error}")
        facts = _facts(resolved, self.reference, 0)
        differences = list(compare_records(eager, self.reference, metadata=False))
        if not differences:
            return Verdict("ok", tier="T2" if resolved.exact else "T1", facts=facts)
        widened = widen(resolved)
        anchor = run_history(eager_side(widened, self.path), widened, self.history)
        for difference in differences:
            if resolved.exact or not is_near(difference, lambda d: look_up(anchor, d)):
                evidence = f"Thunder without graphs, against eager: {difference.evidence}"
                return Verdict("fail", BaseFault.name, difference.call, evidence, facts=facts)
        return Verdict("ok", tier="T3", facts=facts)

    def _run_target(self, transform: Any) -> tuple[Record, int]:
        """Run the history with the transform; return its record and the number of its regions."""
        if self.trace is None:
            side, traces = jit_side(self.resolved, transform)
            record = run_history(side, self.resolved, self.history)
            # Here the transform runs inside the first call.
            for call in record.calls:
                if isinstance(call.exception, VerificationError):
                    raise _Fails(FalseAlarm, str(call.exception))
            return record, sum(map(count_regions, traces()))
        trace = _transform(transform, self.trace)
        try:
            side = direct_side(self.resolved, self.form, trace)
        except Exception as error:  # whatever keeps the emitted trace from becoming a function
            raise _Fails(BrokenStructure, first_line(error)) from error
        return run_history(side, self.resolved, self.history), count_regions(trace)

    def _judge_difference(self, difference: Difference, facts: Facts) -> Verdict:
        """A difference counts only if the un-graphed function, run again, agrees with itself.

        In a process that the target has damaged it could not, and that is the target's doing.
        """
        again = self.reference if find_damage() else run_history(self.side, self.resolved, self.history)
        if next(compare_records(self.reference, again), None) is not None:
            evidence = "Thunder without graphs differs from itself when run again"
            return Verdict("incomparable", evidence=evidence, facts=facts)
        return Verdict("fail", difference.invariant.name, difference.call, difference.evidence, facts=facts)


def _facts(resolved: Resolved, record: Record, regions: int) -> Facts:
    """Sum up what the reference did."""
    results = [value.tensor() for call in record.calls for value in call.results if value.kind == "tensor"]
    floats = [value for value in results if value.is_floating_point()]
    elements = sum(value.numel() for value in floats)
    finite = sum(int(torch.isfinite(value).sum()) for value in floats)
    mutated = any(s.writes is not None for s in resolved.statements)
    return Facts(regions=regions, mutated=mutated, finite=2 * finite >= elements)
