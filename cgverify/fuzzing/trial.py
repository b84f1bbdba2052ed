"""The trial of one program: the runs that are compared, and what their comparison says.

The reference is always Thunder without graphs. A target is judged against it; eager PyTorch judges it itself.
"""

from __future__ import annotations

from typing import Any

from cgverify.diagnostics import VerificationError
from cgverify.emulation import EmulatedCUDA
from cgverify.fuzzing.anchor import look_up, widen
from cgverify.fuzzing.comparison import Difference, compare_records, is_near
from cgverify.fuzzing.devices import find_damage, settings_kept
from cgverify.fuzzing.events import has_autocast, without_autocast
from cgverify.fuzzing.execution import Record, first_line, run_history
from cgverify.fuzzing.invariants import (
    BaseFault,
    Broken,
    BrokenStructure,
    FalseAlarm,
    ProcessDamaged,
    TransformFailed,
)
from cgverify.fuzzing.program import History
from cgverify.fuzzing.records import Side
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.sides import Path, apply_transform, direct_side, eager_side, jit_side
from cgverify.fuzzing.structure import count_regions
from cgverify.fuzzing.tracing import Form, build_trace
from cgverify.fuzzing.verdict import Facts, Verdict

import torch
from thunder.core.trace import TraceCtx


class Fails(Exception):
    """Ends a trial with a broken invariant.

    Attributes:
        invariant: its class.
    """

    def __init__(self, invariant: type[Broken], evidence: str) -> None:
        super().__init__(evidence)
        self.invariant = invariant


class Refused(Exception):
    """Ends a trial because Thunder without graphs cannot run the program."""


def build(resolved: Resolved, form: Form) -> TraceCtx:
    """Return the program's execution trace; raises `Refused` where Thunder refuses it."""
    try:
        return build_trace(resolved, form)
    except Exception as error:  # Thunder's own checks refuse some programs that eager PyTorch runs
        raise Refused(first_line(error)) from error


def transform_trace(transform: Any, trace: TraceCtx) -> TraceCtx:
    """Return what the target's transform makes of a trace; raises `Fails`, a false alarm of its verifier told apart."""
    try:
        return apply_transform(transform, trace)
    except VerificationError as error:
        raise Fails(FalseAlarm, str(error)) from error
    except Exception as error:  # whatever the transform under test raises is a finding
        raise Fails(TransformFailed, first_line(error)) from error


class Trial:
    """One program on trial: Thunder without graphs, its record, and what is judged by it.

    Args:
        resolved: the program.
        history: the calls to make.
        path: `direct` or `jit`.
        form: how RETURN looks on the direct path.

    Attributes:
        reference: what Thunder without graphs showed.

    Raises:
        Refused: Thunder cannot trace the program.
    """

    def __init__(self, resolved: Resolved, history: History, path: Path, form: Form) -> None:
        self.resolved, self.history, self.path, self.form = resolved, history, path, form
        self.trace = build(resolved, form) if path == "direct" else None
        self.reference = self._run_reference(history, self.trace)

    def judge_target(self, transform: Any) -> Verdict:
        """Judge the transform against Thunder without graphs."""
        try:
            with settings_kept() as describe_change:
                tested, regions = self._run_target(transform)
                changed = describe_change()
            facts = _facts(self.resolved, self.reference, regions)
            difference = next(compare_records(self.reference, tested), None)
            if difference is not None:
                return self._judge_difference(difference, facts)
            if damage := find_damage() or changed:
                raise Fails(ProcessDamaged, f"afterwards, {damage}")
        except Fails as failure:
            return Verdict("fail", failure.invariant.name, None, str(failure))
        return Verdict("ok", tier="T1", facts=facts)

    def judge_base(self) -> Verdict:
        """Judge Thunder without graphs against eager PyTorch."""
        resolved = self.resolved
        history, reference = self.history, self.reference
        if has_autocast(history) and (self.path == "direct" or EmulatedCUDA.current()):
            # A trace built directly knows no autocast, nor does the emulation's eager PyTorch: compare without.
            history = without_autocast(history)
            reference = self._run_reference(history)
        exact = resolved.exact and not has_autocast(history)  # what is cast to fewer bits is exact no longer
        eager = run_history(eager_side(resolved, self.path), resolved, history)
        if eager.calls and eager.calls[0].error:
            return Verdict("incomparable", evidence=f"eager PyTorch raises {eager.calls[0].error}")
        if self.path == "direct":
            eager.gradients.clear()  # a trace built directly has no backward
        facts = _facts(resolved, reference, 0)
        differences = list(compare_records(eager, reference, metadata=False))
        if not differences:
            return Verdict("ok", tier="T2" if exact else "T1", facts=facts)
        widened = widen(resolved)
        anchor = run_history(eager_side(widened, self.path), widened, history)
        for difference in differences:
            if exact or not is_near(difference, lambda d: look_up(anchor, d)):
                evidence = f"Thunder without graphs, against eager: {difference.evidence}"
                return Verdict("fail", BaseFault.name, difference.call, evidence, facts=facts)
        return Verdict("ok", tier="T3", facts=facts)

    def _run_reference(self, history: History, trace: TraceCtx | None = None) -> Record:
        """Run Thunder without graphs, compiled anew, so that it uses nothing that a target could have damaged.

        `trace` is what to run on the direct path; None for one that is built anew too.
        """
        resolved, form = self.resolved, self.form
        direct = self.path == "direct"
        side = direct_side(resolved, form, trace or build(resolved, form)) if direct else jit_side(resolved)[0]
        return run_history(side, resolved, history)

    def _run_target(self, transform: Any) -> tuple[Record, int]:
        """Run the history with the transform; return its record and the number of its regions."""
        if self.trace is None:
            side, traces = jit_side(self.resolved, transform)
            record = self._run_calls(side)
            # Here the transform runs inside the first call.
            for call in record.calls:
                if isinstance(call.exception, VerificationError):
                    raise Fails(FalseAlarm, str(call.exception))
            return record, sum(map(count_regions, traces()))
        trace = transform_trace(transform, self.trace)
        try:
            side = direct_side(self.resolved, self.form, trace)
        except Exception as error:  # whatever keeps the emitted trace from becoming a function
            raise Fails(BrokenStructure, first_line(error)) from error
        return self._run_calls(side), count_regions(trace)

    def _run_calls(self, side: Side) -> Record:
        """Make the calls with the target; what its caller cannot do between them any more is the target's doing."""
        try:
            return run_history(side, self.resolved, self.history)
        except Exception as error:
            if not find_damage():
                raise
            raise Fails(ProcessDamaged, f"between calls, the caller meets {first_line(error)}") from error

    def _judge_difference(self, difference: Difference, facts: Facts) -> Verdict:
        """A difference counts only if the un-graphed function, run again, agrees with itself.

        In a process that the target has damaged it could not, and that is the target's doing.
        """
        again = self.reference if find_damage() else self._run_reference(self.history)
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
