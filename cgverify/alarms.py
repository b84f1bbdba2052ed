"""Counts false alarms: the verifier's word on right rewrites of random programs, spread over processes.

Every rewrite is our transform's own, with nothing planted, so any finding is an alarm, but for what is found of the
trace before it already. Three sources of traces:
programs built directly, in both forms that a trace takes around Thunder's last passes; programs through `thunder.jit`
with gradients, forward and backward proved together; and the same fused by Thunder's torch.compile executor.

Work comes in batches. A batch depends on the seed, its number and its size alone, and batches are counted in order
until enough pairs were judged, so the answer is the same for any number of processes.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from unittest import mock

from cgverify.api import CUDAGraphTransform
from cgverify.diagnostics import Report
from cgverify.emulation import EmulatedCUDA
from cgverify.fuzzing.arguments import make_inputs
from cgverify.fuzzing.drawing import for_each_program
from cgverify.fuzzing.program import Program, encode_program
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.sides import apply_transform, forget_sources, jit_side
from cgverify.fuzzing.structure import count_regions
from cgverify.fuzzing.tracing import Form, build_trace
from cgverify.fuzzing.workers import call_in_order
from cgverify.verifier import verify, verify_each_trace
from cgverify.verifier.semantics import compute_facts
from cgverify.watching import Pair, WatchedTransform

import torch
from msgspec import structs
from thunder.core.trace import TraceCtx

BATCH = 500
"""Most programs of a batch that are traced directly."""

SHARE = 50
"""One program in so many goes through `thunder.jit`, as it is and fused: it costs as much as thirty others."""


LOST_AFTER = 240.0
"""Seconds after which a batch is begun once more, and then given up."""

BATCHES_PER_PROCESS = 16
"""After so many a fresh interpreter takes over: Thunder keeps something of every trace."""

Finding = tuple[str, str]
"""Code and message."""

LOST_IN_A_ROW = 5
"""Batches lost one after the other, because their processes died, after which no more are begun."""


@dataclass(frozen=True)
class Alarms:
    """How the verifier judged right rewrites.

    Attributes:
        kinds: how many of the rewrites were of a kind, `all` among the kinds.
        false: codes and program of each rewrite with a finding that the trace before it has not.
        refused: how many programs could not be compiled by Thunder.
        lost: how many batches ended their processes.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    false: tuple[str, ...] = ()
    refused: int = 0
    lost: int = 0

    @property
    def pairs(self) -> int:
        """How many rewrites were judged."""
        return self.kinds["all"]

    def render(self) -> str:
        """A line per false alarm, one per kind of rewrite, and the sum."""
        lines = [f"false alarm  {alarm}" for alarm in self.false]
        lines += [f"{number:>9} {kind}" for kind, number in self.kinds.most_common() if kind != "all"]
        if self.lost:
            lines.append(f"{self.lost} batches never came back: their processes died")
        return "\n".join([*lines, f"{len(self.false)} alarms on {self.pairs} right rewrites"])

    def __add__(self, other: Alarms) -> Alarms:
        sums = self.refused + other.refused, self.lost + other.lost
        return Alarms(self.kinds + other.kinds, self.false + other.false, *sums)


def count_alarms(
    pairs: int = 1000,
    seed: int = 0,
    jobs: int = 1,
    tell: Callable[[Alarms], None] = lambda alarms: None,
    seconds: float | None = None,
) -> Alarms:
    """Judges right rewrites until at least `pairs` were judged, time is up, or one process dies after the other.

    Args:
        pairs: how many.
        seed: chooses the programs.
        jobs: processes; more than one start afresh, so the calling script needs a `__main__` guard.
        tell: called with the counts so far after each batch.
        seconds: no batch is begun after this long; None for no limit.
    """
    found, began, lost = Alarms(), time.monotonic(), 0
    if not pairs:
        return found
    for batch in _batches(seed, min(BATCH, pairs), jobs):
        found += batch
        lost = lost + batch.lost if batch.lost else 0
        tell(found)
        is_late = seconds is not None and time.monotonic() - began >= seconds
        if found.pairs >= pairs or is_late or lost >= LOST_IN_A_ROW:
            break
    return found


def _batches(seed: int, size: int, jobs: int) -> Iterator[Alarms]:
    """What the batches found, in order, without end."""
    if jobs == 1:
        yield from (judge_batch(seed, number, size) for number in count())
        return
    judge = partial(_judge_numbered, seed, size)
    for batch in call_in_order(judge, count(), jobs, BATCHES_PER_PROCESS, LOST_AFTER):
        yield Alarms(lost=1) if batch is None else batch


def _judge_numbered(seed: int, size: int, number: int) -> Alarms:
    return judge_batch(seed, number, size)


def judge_batch(seed: int, number: int, size: int = BATCH) -> Alarms:
    """Judges the rewrites of one batch: of `size` programs directly, and of a few more through `thunder.jit`."""
    torch.set_num_threads(1)
    judged = _Judged()
    first = (seed * 1_000_000 + number) * 2
    with _quiet():
        for_each_program(judged.directly, size, first, gradients=False)
        for_each_program(judged.compiled, max(1, size // SHARE), first + 1, gradients=True)
    return Alarms(judged.kinds, tuple(judged.false), judged.refused)


class _Judged:
    """What has been judged so far."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.false: list[str] = []
        self.refused = 0

    def directly(self, program: Program) -> None:
        """Both forms of the trace built directly."""
        resolved = resolve_program(program)
        forms: tuple[Form, ...] = ("dict", "tuple")
        for form in forms:
            try:
                before = build_trace(resolved, form)
            except Exception:  # Thunder's own checks refuse some programs that eager PyTorch runs
                self.refused += 1
                break
            after = apply_transform(CUDAGraphTransform(verify=False), before)
            if count_regions(after):
                self._record(program, (before, after), verify(before, after), "built directly")
        forget_sources()

    def compiled(self, drawn: Program) -> None:
        """Forward and backward as `thunder.jit` makes them, as they are and fused."""
        program = _with_gradients(drawn)
        for kind, options in (("jitted", {}), ("fused", {"executors": ["torchcompile"]})):
            pairs = _compile(program, **options)
            self.refused += not pairs
            reports = list(verify_each_trace(pairs))
            own = _own_findings(pairs) if any(report.diagnostics for report in reports) else [Counter()] * len(pairs)
            for place, (pair, report, known) in enumerate(zip(pairs, reports, own, strict=True)):
                if count_regions(pair[1]):
                    self._record(program, pair, report, f"{kind} {'backward' if place else 'forward'}", known)
        forget_sources()

    def _record(
        self, program: Program, pair: Pair, report: Report, kind: str, known: Counter[Finding] | None = None
    ) -> None:
        self.kinds.update(("all", kind, *_effects(pair[0])))
        false = _findings(report) - (known or Counter())
        if false:
            self.false.append(f"{', '.join(dict.fromkeys(code for code, _ in false))} ({kind}): {_one_line(program)}")
        elif report.diagnostics:
            self.kinds.update(("warned of a fault of Thunder's own",))


def _findings(report: Report) -> Counter[Finding]:
    return Counter((found.code, found.message) for found in report.diagnostics)


def _own_findings(pairs: list[Pair]) -> list[Counter[Finding]]:
    """What is found of each of Thunder's traces by itself, without a rewrite.

    Thunder's grad transform saves values that the forward trace overwrites later; so gradients are wrong with and
    without graphs, and the verifier says so.
    """
    return [_findings(report) for report in verify_each_trace([(before, before) for before, _ in pairs])]


def _with_gradients(program: Program) -> Program:
    """The program with a gradient for every input that can have one, and more results: few have a backward as drawn."""
    inputs = [
        structs.replace(entry, requires_grad=entry.alias_of is None and entry.dtype in ("f32", "f64", "f16", "bf16"))
        for entry in program.inputs
    ]
    return structs.replace(program, inputs=tuple(inputs), outputs=(*program.outputs, -2, -4, -6, -8))


def _compile(program: Program, **options: object) -> list[Pair]:
    """What `thunder.jit` hands to the transform and gets back; nothing if it refuses the program."""
    resolved = resolve_program(program)
    watched = WatchedTransform(CUDAGraphTransform(verify=False), runs=False)
    seeds, layouts = [entry.seed for entry in resolved.inputs], [entry.layout for entry in resolved.inputs]
    # Only traces are looked at: nothing has to be compiled.
    with EmulatedCUDA(), mock.patch.object(torch, "compile", lambda function, **_: function):
        function, inputs = jit_side(resolved, watched, **options)[0](make_inputs(resolved.inputs, seeds, layouts))
        try:
            function(*inputs)
        except Exception:  # whatever Thunder raises on a program that it does not support; the traces made count
            return watched.rewritten
    return watched.rewritten


def _one_line(program: Program) -> str:
    """The program's file on one line: JSON does not mind."""
    return " ".join(line.strip() for line in encode_program(program).splitlines())


def _effects(trace: TraceCtx) -> Iterator[str]:
    """What the trace's ops do besides computing."""
    facts = [compute_facts(bsym) for bsym in trace.bound_symbols]
    kinds = {
        "the host waits": any(known.sync for known in facts),
        "host and device exchange data": any(known.transfer for known in facts),
        "writes": any(known.writes for known in facts),
        "views": any(known.views for known in facts),
        "random draws": any(known.draws for known in facts),
    }
    return (kind for kind, present in kinds.items() if present)


@contextmanager
def _quiet() -> Iterator[None]:
    """Thunder asks torch for shapes on fake tensors, which warns on some versions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
