"""Finds the rewrite to blame: regions are put back into the trace as the ops they replaced, and come one by one.

A region shows the ops it replaced as its subsymbols, so a trace can be run with some regions graphed and the others
un-graphed. With none, the program has to pass, or what goes wrong lies outside the regions. Then the regions come in
program order, forward before backward; the first with which the program fails is to blame, by itself or together with
earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cgverify.fuzzing.devices import DeviceName
from cgverify.fuzzing.oracles import check
from cgverify.fuzzing.program import Program
from cgverify.fuzzing.sides import Path
from cgverify.fuzzing.structure import is_region
from cgverify.fuzzing.targets import Target
from cgverify.fuzzing.tracing import Form
from cgverify.fuzzing.verdict import Verdict

from thunder.core.trace import TraceCtx, from_trace
from thunder.core.transform_common import Transform


@dataclass(frozen=True, slots=True)
class GraphedOps:
    """One region of one trace.

    Attributes:
        trace: the trace's name, `computation` or `backward_fn`.
        name: the region's.
        ops: the ops it replaced, as text.
    """

    trace: str
    name: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blame:
    """What flips the verdict.

    Attributes:
        region: the first region with which the program fails; None if it fails without any.
        alone: whether it fails with that region alone.
        regions: how many there are.
        verdict: the verdict with it and the regions before it.
    """

    region: GraphedOps | None
    alone: bool
    regions: int
    verdict: Verdict

    def render(self) -> str:
        """A few lines of text."""
        if self.region is None:
            return f"to blame: the rewrite outside its {self.regions} regions; it fails with all of them un-graphed"
        how = "graphed alone" if self.alone else "graphed together with those before it, and not alone"
        head = f"to blame: {self.region.name} of {self.region.trace}, one of {self.regions} regions, {how}"
        found = f"{self.verdict.invariant}: {self.verdict.evidence}"
        return "\n".join([head, *(f"  {op}" for op in self.region.ops), found])


class _Partly(Transform):
    """Another transform with only some of its regions graphed.

    Attributes:
        seen: every region it made, in order.
    """

    def __init__(self, transform: Any, keeps: Callable[[int], bool]) -> None:
        super().__init__()
        self._transform, self._keeps = transform, keeps
        self.seen: list[GraphedOps] = []

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """Transform one trace and put back the regions that are not to be graphed."""
        emitted: TraceCtx = self._transform.transform_trace_post_optimization(computation_trace, **kwargs)
        kept = []
        for bsym in emitted.bound_symbols:
            if not is_region(bsym):
                kept.append(bsym)
                continue
            number = len(self.seen)
            name = emitted.siginfo().name
            ops = tuple(str(sub).splitlines()[0].strip() for sub in bsym.subsymbols)
            self.seen.append(GraphedOps(name, bsym.sym.name, ops))
            kept += [bsym] if self._keeps(number) else bsym.subsymbols
        trace = from_trace(emitted)
        trace.bound_symbols = kept
        return trace


def find_blame(
    program: Program, target: Target, device: DeviceName, *, path: Path = "direct", form: Form = "dict"
) -> Blame | None:
    """Return what flips the verdict on a program; None if it does not fail with the target, or nothing can be told.

    Args:
        program: the program, with its history.
        target: the transform under test.
        device: where to run.
        path: `direct` or `jit`.
        form: how RETURN looks on the direct path.
    """
    if target.make is None:
        return None
    make = target.make
    made: list[_Partly] = []

    def judge(keeps: Callable[[int], bool]) -> Verdict:
        def make_partly() -> _Partly:
            made.append(_Partly(make(), keeps))
            return made[-1]

        return check(program, None, replace(target, make=make_partly), device, path=path, form=form, eager=False)

    whole = judge(lambda number: True)
    if whole.status != "fail" or not made:
        return None
    regions = list(made[-1].seen)
    if (without := judge(lambda number: False)).status == "fail":
        return Blame(None, False, len(regions), without)
    for last, region in enumerate(regions):
        verdict = judge(last.__ge__)
        if verdict.status == "fail":
            return Blame(region, judge(last.__eq__).status == "fail", len(regions), verdict)
    return None
