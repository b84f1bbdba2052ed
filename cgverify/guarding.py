"""Guards for other people's transforms: `Verified` around one, `verify_each` over a jit, `assert_verified` in tests.

A trace that Thunder itself makes, and one that a transform makes before execution, is compared as a stage of a pipeline
(`verifier/stages.py`); what a transform makes of an execution trace is proved op by op (`verifier/checker.py`).
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from cgverify.diagnostics import Format, Report, VerificationError
from cgverify.verifier import verify, verify_backward
from cgverify.verifier.contracts import Contract
from cgverify.verifier.stages import verify_stage

import thunder
from thunder.core.trace import TraceCtx, TraceTag, from_trace
from thunder.core.transform_common import Transform

OnUnproved = Literal["raise", "warn"]
Pair = tuple[TraceCtx, TraceCtx]


class _Around(Transform):
    """Hands everything that makes no trace on to another transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self.transform = transform

    def transform_module(self, model: Any) -> None:
        """Pass on."""
        self.transform.transform_module(model)

    def transform_state_dict_for_submodule(self, *args: Any, **kwargs: Any) -> Any:
        """Pass on."""
        return self.transform.transform_state_dict_for_submodule(*args, **kwargs)

    def reverse_transform_state_dict_for_submodule(self, *args: Any, **kwargs: Any) -> Any:
        """Pass on."""
        return self.transform.reverse_transform_state_dict_for_submodule(*args, **kwargs)


class Verified(_Around):
    """Runs another transform and proves every trace it makes: `thunder.jit(fn, transforms=[Verified(MyTransform())])`.

    Args:
        transform: the transform to guard.
        contract: what the runtime behind it promises; None takes it from the regions it makes.
        on_unproved: `"raise"` a `VerificationError`, or let the trace run and `"warn"`.

    Attributes:
        transform: the transform guarded.
        reports: one per trace, in the order in which Thunder asked.

    Raises:
        TypeError: `transform` is not a Thunder transform.
        ValueError: `on_unproved` has another value.
    """

    def __init__(
        self, transform: Transform, *, contract: Contract | None = None, on_unproved: OnUnproved = "raise"
    ) -> None:
        if not isinstance(transform, Transform):
            raise TypeError(f"{transform!r} is no Thunder transform: pass an instance of thunder.core.Transform")
        if on_unproved not in ("raise", "warn"):
            raise ValueError(f"on_unproved={on_unproved!r} is neither 'raise' nor 'warn'")
        super().__init__(transform)
        self.reports: list[Report] = []
        self._contract = contract
        self._on_unproved = on_unproved
        self._compiling = threading.local()  # the forward pair whose backward trace may come next

    def transform_traces_pre_prologue(
        self, prologue_trace: TraceCtx, computation_trace: TraceCtx, epilogue_trace: TraceCtx | None, **kwargs: Any
    ) -> tuple[TraceCtx, TraceCtx, TraceCtx | None]:
        """Let the transform rewrite the traces as recorded, and compare the computation with what it was.

        Raises:
            VerificationError: it computes something else and `on_unproved` is `"raise"`.
        """
        before = copy_trace(computation_trace)
        made = self.transform.transform_traces_pre_prologue(prologue_trace, computation_trace, epilogue_trace, **kwargs)
        self._judge(verify_stage(before, made[1]))
        prologue, computation, epilogue = made
        return prologue, computation, epilogue

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """Let the transform rewrite an execution trace, and prove the rewrite; a backward trace with its forward trace.

        Raises:
            VerificationError: the rewrite is not proved and `on_unproved` is `"raise"`.
        """
        before = copy_trace(computation_trace)
        after: TraceCtx = self.transform.transform_trace_post_optimization(computation_trace, **kwargs)
        backward = TraceTag.BACKWARD in before.tags
        forward: Pair | None = getattr(self._compiling, "forward", None) if backward else None
        self._compiling.forward = None if backward else (before, after)
        self._judge(_prove((before, after), forward, self._contract))
        return after

    def _judge(self, report: Report) -> None:
        self.reports.append(report)
        if report.ok:
            return
        if self._on_unproved == "raise":
            raise VerificationError(report)
        name = type(self.transform).__name__
        warnings.warn(f"{name} is not proved on {report.subject}\n{report.render()}", RuntimeWarning, stacklevel=3)


@dataclass(frozen=True, slots=True)
class PassCheck:
    """What one pass did to one trace.

    Attributes:
        name: the pass, as Thunder names it; for a user's transform, its class.
        trace: `computation`, or `backward_fn`.
        report: the findings: errors where the pass is wrong, warnings where it is not proved.
    """

    name: str
    trace: str
    report: Report

    @property
    def proved(self) -> bool:
        """Whether nothing at all is open."""
        return self.report.ok and "CG504" not in self.report.codes


@dataclass(frozen=True)
class PassReport:
    """Every trace-to-trace step of one compilation.

    Attributes:
        passes: in the order in which they ran.
        error: what running the compiled function raised, if it did.
    """

    passes: tuple[PassCheck, ...]
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        """Whether no pass is wrong."""
        return all(check.report.ok for check in self.passes)

    @property
    def guilty(self) -> PassCheck | None:
        """The first pass that is wrong."""
        return next((check for check in self.passes if not check.report.ok), None)

    def render(self, format: Format = "text") -> str:
        """A line per pass with what was found below it; or the findings as JSON or GitHub annotations."""
        if format == "json":
            passes = [
                {"pass": c.name, "trace": c.trace, "proved": c.proved, "report": json.loads(c.report.render("json"))}
                for c in self.passes
            ]
            return json.dumps({"ok": self.ok, "passes": passes}, indent=2)
        if format == "github":
            return "\n".join(text for check in self.passes if (text := check.report.render("github")))
        lines = []
        for check in self.passes:
            word = "proved" if check.proved else "not proved" if check.report.ok else "wrong"
            lines.append(f"{word:<10}  {check.trace}: {check.name}")
            lines += [f"  {line}" for found in check.report.diagnostics for line in found.render().splitlines()]
        proved = sum(check.proved for check in self.passes)
        lines.append(f"{proved} of {len(self.passes)} passes proved")
        if self.guilty is not None:
            lines.append(f"guilty: {self.guilty.name}")
        return "\n".join(lines)


def verify_each(fn: Callable[..., Any], *args: Any, contract: Contract | None = None, **jit_options: Any) -> PassReport:
    """Compiles and calls `fn` once, and checks every step from trace to trace, Thunder's own and each transform's.

    Args:
        fn: a function or module; it runs, with its effects on `args`.
        args: its arguments.
        contract: for the transforms' rewrites of execution traces; None takes it from the regions they make.
        jit_options: for `thunder.jit`, such as `transforms=[...]` and `executors=[...]`.

    Raises:
        Exception: whatever compiling or calling raised, if every pass is right.
    """
    watched = [_Watched(transform) for transform in jit_options.pop("transforms", ())]
    jitted = thunder.jit(fn, transforms=list(watched), **jit_options)
    error: Exception | None = None
    try:
        jitted(*args)
    except Exception as raised:  # whatever a wrong pass leads to
        error = raised
    stats = thunder.compile_stats(jitted)
    forward, backward = list(stats.last_traces or ()), list(stats.last_backward_traces or ())
    report = PassReport(tuple(_check_steps(forward, backward, watched, contract)), error)
    if error is not None and report.ok:
        raise error
    return report


def assert_verified(before: TraceCtx, after: TraceCtx, *, contract: Contract | None = None) -> None:
    """Asserts that a rewrite is proved; for tests of a transform.

    Args:
        before: the execution trace given to the transform.
        after: the trace it made.
        contract: what its runtime promises; None takes it from the regions.

    Raises:
        AssertionError: it is not; the message is the report.
        TypeError: one of them is not a Thunder trace.
    """
    report = verify(before, after, contract=contract)
    if not report.ok:
        raise AssertionError(report.render())


class _Watched(_Around):
    """Runs a transform and keeps what it was given and what it made of it."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform)
        self.recorded: list[Pair] = []  # before execution
        self.rewritten: list[Pair] = []  # execution traces

    def transform_traces_pre_prologue(self, prologue: Any, computation: Any, epilogue: Any, **kwargs: Any) -> Any:
        before = copy_trace(computation)
        made = self.transform.transform_traces_pre_prologue(prologue, computation, epilogue, **kwargs)
        if made[1] is not computation:
            self.recorded.append((before, made[1]))
        return made

    def transform_trace_post_optimization(self, trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        before = copy_trace(trace)
        after: TraceCtx = self.transform.transform_trace_post_optimization(trace, **kwargs)
        self.rewritten.append((before, after))
        return after


def _check_steps(
    forward: Sequence[TraceCtx], backward: Sequence[TraceCtx], watched: Sequence[_Watched], contract: Contract | None
) -> Iterator[PassCheck]:
    """Thunder's steps from the lists it keeps; a transform's from what was watched, which no later edit can touch."""
    recorded = {id(after): (watch, pair) for watch in watched for pair in watch.recorded for after in pair[1:]}
    rewritten = {id(after) for watch in watched for _, after in watch.rewritten}
    executed = False
    for before, after in pairwise(forward):
        if before is after:
            continue
        if id(after) in recorded:
            watch, pair = recorded[id(after)]
            yield PassCheck(_name(watch), "computation", verify_stage(*pair))
        elif id(after) in rewritten:
            continue
        else:
            if not executed and _is_unwrapping(after):
                executed = True
                yield from _check_rewrites(watched, contract)
            half = backward[0] if backward and TraceTag.AUGMENTED_FORWARD in after.tags else None
            yield PassCheck(_provenance(after), "computation", verify_stage(before, after, backward=half))
    if not executed:
        yield from _check_rewrites(watched, contract)


def _check_rewrites(watched: Sequence[_Watched], contract: Contract | None) -> Iterator[PassCheck]:
    for watch in watched:
        forward: Pair | None = None
        for pair in watch.rewritten:
            is_backward = TraceTag.BACKWARD in pair[0].tags
            report = _prove(pair, forward if is_backward else None, contract)
            yield PassCheck(_name(watch), report.subject, report)
            forward = None if is_backward else pair


def _prove(pair: Pair, forward: Pair | None, contract: Contract | None) -> Report:
    if forward is None:
        return verify(*pair, contract=contract)
    return verify_backward(*pair, forward=forward, contract=contract)


def _is_unwrapping(trace: TraceCtx) -> bool:
    return "Unwrap" in _provenance(trace)


def _name(watch: _Watched) -> str:
    return type(watch.transform).__name__


def _provenance(trace: TraceCtx) -> str:
    """The pass that made a trace, without the time it took."""
    text = str(trace.get_provenance()).removeprefix("# Constructed by ")
    return text.partition(" (took")[0]


def copy_trace(trace: TraceCtx) -> TraceCtx:
    """Copies a trace and its bound symbols, so that a transform that edits in place cannot touch the original."""
    copy = from_trace(trace)
    copy.bound_symbols.extend(bsym.from_bsym() for bsym in trace.bound_symbols)
    copy.set_provenance(trace.get_provenance())
    return copy
