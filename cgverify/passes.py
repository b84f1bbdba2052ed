"""Checks every step of one compilation, Thunder's own passes and each transform's, and names the guilty one.

A trace that Thunder itself makes, and one that a transform makes before execution, is compared as a stage of a pipeline
(`verifier/stages.py`); what a transform makes of an execution trace is proved op by op (`verifier/checker.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cgverify.diagnostics import Format, Report, explain_words
from cgverify.verifier import verify_each_trace
from cgverify.verifier.contracts import Contract
from cgverify.verifier.stages import verify_stage
from cgverify.watching import WatchedTransform

import thunder
from thunder.core.trace import TraceCtx, TraceTag


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
        lines += explain_words([found for check in self.passes for found in check.report.diagnostics])
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
    watched = [WatchedTransform(transform) for transform in jit_options.pop("transforms", ())]
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


def _check_steps(
    forward: Sequence[TraceCtx],
    backward: Sequence[TraceCtx],
    watched: Sequence[WatchedTransform],
    contract: Contract | None,
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


def _check_rewrites(watched: Sequence[WatchedTransform], contract: Contract | None) -> Iterator[PassCheck]:
    for watch in watched:
        for report in verify_each_trace(watch.rewritten, contract=contract):
            yield PassCheck(_name(watch), report.subject, report)


def _is_unwrapping(trace: TraceCtx) -> bool:
    return "Unwrap" in _provenance(trace)


def _name(watch: WatchedTransform) -> str:
    return type(watch.transform).__name__


def _provenance(trace: TraceCtx) -> str:
    """The pass that made a trace, without the time it took."""
    text = str(trace.get_provenance()).removeprefix("# Constructed by ")
    return text.partition(" (took")[0]
