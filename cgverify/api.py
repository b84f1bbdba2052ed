"""The transform as users meet it: `CUDAGraphTransform` for `thunder.jit`, `cuda_graph_transform` for one trace.

This is where transform, verifier and runtime meet: the transform rewrites a trace, the verifier proves the rewrite, and
the runtime executes its regions.
"""

from __future__ import annotations

import inspect
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from cgverify.diagnostics import Report, VerificationError
from cgverify.ir import is_backward, view_trace
from cgverify.plan import CapturePlan, Region
from cgverify.runtime.body import without_autocast
from cgverify.runtime.region import GraphedRegion
from cgverify.runtime.runtime import Runtime
from cgverify.runtime.stats import RuntimeStats
from cgverify.transform.driver import rewrite_trace
from cgverify.transform.effects import Capturable
from cgverify.transform.roles import compute_static_names
from cgverify.transform.switches import may_read_switches
from cgverify.verifier import contracts, verify, verify_backward
from cgverify.wording import counted

from thunder.core.trace import TraceCtx
from thunder.core.transform_common import Transform

DISABLE = "CGVERIFY_DISABLE"

OnUnproved = Literal["raise", "ungraphed"]

# emitted trace -> the trace it was made from, so that a backward trace can be proved together with its forward trace
_originals: weakref.WeakKeyDictionary[TraceCtx, TraceCtx] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What a transform did to each trace it saw, in order.

    Attributes:
        plans: one per trace: its regions, and each op left out with reason and source line.
    """

    plans: tuple[CapturePlan, ...]

    def render(self) -> str:
        """Text: a heading per trace, then its regions, what is read on the device, then the ops left out."""
        lines: list[str] = []
        for plan in self.plans:
            regions, left_out = counted(len(plan.regions), "region"), counted(len(plan.left_out), "op")
            lines.append(f"{plan.trace}: {regions}, {left_out} left out")
            for region in plan.regions:
                inputs = ", ".join(entry.name for entry in region.inputs)
                outputs = ", ".join(entry.name for entry in region.outputs)
                size = counted(len(region.ops), "op")
                lines.append(f"  {region.name}({inputs}) -> [{outputs}]: {size} on {region.device}")
            for scalar in plan.scalars:
                where = f"  [{scalar.source}]" if scalar.source else ""
                read = f"reads `{scalar.tensor}` on the device in place of `{scalar.number}`"
                lines.append(f"  {scalar.symbol}: {read}{where}")
            for left in plan.left_out:
                where = f"  [{left.source}]" if left.source else ""
                lines.append(f"  left out: {left.symbol}: {left.reason}{where}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """The arguments of `CUDAGraphTransform`, checked."""

    verify: bool
    on_unproved: OnUnproved
    max_graphs: int
    capturable: Capturable | None
    check: Literal["first"] | None
    comments: bool
    in_place_after: int | None

    def __post_init__(self) -> None:
        if self.on_unproved not in ("raise", "ungraphed"):
            raise ValueError(f"on_unproved={self.on_unproved!r} is neither 'raise' nor 'ungraphed'")
        if self.check not in (None, "first"):
            raise ValueError(f"check={self.check!r} is neither None nor 'first'")
        graphs, calls, vouched = self.max_graphs, self.in_place_after, self.capturable
        if not _is_positive(graphs):
            raise ValueError(f"max_graphs={graphs!r} is no positive integer: to run without graphs set {DISABLE}=1")
        if calls is not None and not _is_positive(calls):
            raise ValueError(f"in_place_after={calls!r} is no positive integer: to copy inputs always pass None")
        if isinstance(vouched, str):
            raise ValueError(f"capturable={vouched!r} is one string: pass a collection of names, {{{vouched!r}}}")


class CUDAGraphTransform(Transform):
    """Graphs every run of capturable CUDA ops in the traces of a jitted function, and proves each rewrite.

    Use it as `thunder.jit(fn, transforms=[CUDAGraphTransform()])`. Results, writes and random numbers are those of
    `thunder.jit(fn)` with the same executors. With the environment variable `CGVERIFY_DISABLE=1` traces stay as they
    are. A copy, or what `pickle` makes of it, has the settings alone: no graphs, no reports, no counts.

    Args:
        verify: whether to prove each emitted trace before it may run.
        on_unproved: what to do with a trace that could not be proved: `"raise"` a `VerificationError`, or keep the
            original trace, un-graphed, and warn (`"ungraphed"`).
        max_graphs: most CUDA graphs alive at once over all traces and regions; the least recently used goes first.
        capturable: names or ids of ops that you vouch for as capturable and free of hidden writes, or a predicate on
            bound symbols.
        check: `"first"` compares the first replay of each graph with its un-graphed body, bit for bit.
        comments: whether traces say, above each op left out, why.
        in_place_after: after so many calls in a row with every input at the same address, a region is captured once
            more, to read there, instead of copying them, those that it only reads; a call with other addresses copies
            again. None for never.

    Raises:
        ValueError: an argument has none of the values listed here.
    """

    def __init__(
        self,
        *,
        verify: bool = True,
        on_unproved: OnUnproved = "raise",
        max_graphs: int = 64,
        capturable: Capturable | None = None,
        check: Literal["first"] | None = None,
        comments: bool = False,
        in_place_after: int | None = 100,
    ) -> None:
        super().__init__()
        self.__setstate__(
            _Settings(
                verify=verify,
                on_unproved=on_unproved,
                max_graphs=max_graphs,
                capturable=capturable,
                check=check,
                comments=comments,
                in_place_after=in_place_after,
            )
        )

    def __getstate__(self) -> _Settings:
        return self._settings

    def __setstate__(self, settings: _Settings) -> None:
        self._settings = settings
        self._capturable: Capturable = () if settings.capturable is None else settings.capturable
        self._runtime = Runtime(
            settings.max_graphs, check_first=settings.check == "first", in_place_after=settings.in_place_after
        )
        self._plans: list[CapturePlan] = []
        self._compiling = threading.local()  # the forward trace whose backward trace may come next

    def __repr__(self) -> str:
        given = ", ".join(f"{field.name}={getattr(self._settings, field.name)!r}" for field in fields(self._settings))
        return f"{type(self).__name__}({given})"

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """Rewrites one execution trace; Thunder calls it with the forward trace, then with its backward trace.

        Raises:
            VerificationError: the rewrite could not be proved and `on_unproved` is `"raise"`.
            TypeError: `computation_trace` is not a Thunder trace.
        """
        view_trace(computation_trace)  # says what is wrong with something that is no trace, graphs on or off
        backward = is_backward(computation_trace)
        pending: Callable[[], TraceCtx | None] = getattr(self._compiling, "forward", _nothing)
        emitted = self.rewrite(computation_trace, forward=pending() if backward else None)
        # weakly: a trace holds its regions, and those their graphs
        self._compiling.forward = _nothing if backward else weakref.ref(emitted)
        return emitted

    def rewrite(self, trace: TraceCtx, *, forward: TraceCtx | None = None) -> TraceCtx:
        """Rewrites `trace`; `forward` is the (rewritten or original) forward trace of a backward trace.

        Raises:
            VerificationError: the rewrite could not be proved and `on_unproved` is `"raise"`.
            TypeError: `trace` or `forward` is not a Thunder trace.
        """
        view_trace(trace)
        if os.environ.get(DISABLE, "0") not in ("", "0"):
            return trace
        static = frozenset() if forward is None else compute_static_names(view_trace(forward))
        rewrite = rewrite_trace(
            trace, self._make_callable, capturable=self._capturable, static=static, comments=self._settings.comments
        )
        emitted = rewrite.trace
        if self._settings.verify and emitted is not trace and not self._is_proved(trace, emitted, forward):
            return trace
        self._plans.append(rewrite.plan)
        if emitted is not trace:
            _originals[emitted] = trace
        return emitted

    def report(self) -> PartitionReport:
        """Regions of each trace seen so far; each op left out, with reason and source line."""
        return PartitionReport(tuple(self._plans))

    def stats(self) -> RuntimeStats:
        """What the runtime did so far and what it holds."""
        return self._runtime.stats()

    def reset(self) -> None:
        """Drops every graph and its memory; jitted functions stay usable and start again un-graphed."""
        self._runtime.reset()

    def _make_callable(self, region: Region, body: TraceCtx) -> GraphedRegion:
        run = body.python_callable(include_decorators=False)
        return GraphedRegion(
            region,
            body,
            without_autocast(run),
            inspect.getsource(run),
            self._runtime,
            reads_switches=any(map(may_read_switches, body.bound_symbols)),
        )

    def _vouched_names(self, trace: TraceCtx) -> frozenset[str]:
        """Names of the ops that the caller vouches for."""
        vouched = self._capturable
        if callable(vouched):
            return frozenset(str(bsym.sym.name) for bsym in trace.bound_symbols if vouched(bsym))
        return frozenset(vouched)

    def _is_proved(self, before: TraceCtx, after: TraceCtx, forward: TraceCtx | None) -> bool:
        trusted = self._vouched_names(before)
        contract = replace(contracts.CGVERIFY, trusted=trusted) if trusted else None
        if forward is None:
            report = verify(before, after, contract=contract)
        else:  # the forward trace was proved when it was emitted
            pair = (_originals.get(forward, forward), forward)
            report = verify_backward(before, after, forward=pair, contract=contract)
        if report.ok:
            return True
        if self._settings.on_unproved == "raise":
            raise VerificationError(report)
        warnings.warn(_unproved(report), RuntimeWarning, stacklevel=3)
        return False


def cuda_graph_transform(trace: TraceCtx, *, forward: TraceCtx | None = None, **settings: Any) -> TraceCtx:
    """Graphs what can be graphed in one execution trace, proves the rewrite, and returns the new trace.

    Args:
        trace: an execution trace, such as `thunder.last_traces(jitted)[-1]` or
            `thunder.last_backward_traces(jitted)[-1]`.
        forward: for a backward trace, its forward trace as this function returned it.
        settings: those of `CUDAGraphTransform`.

    Returns:
        The rewritten trace; `trace` itself if nothing in it can be graphed.

    Raises:
        TypeError: `trace` or `forward` is not a Thunder trace, or there is no such setting.
        ValueError: a setting has an unknown value.
        VerificationError: the rewrite could not be proved and `on_unproved` is `"raise"`.
    """
    return CUDAGraphTransform(**settings).rewrite(trace, forward=forward)


def _is_positive(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


def _nothing() -> None:
    """Stands for a weak reference to no trace."""


def _unproved(report: Report) -> str:
    return f"the rewrite of {report.subject} could not be proved; it runs un-graphed\n{report.render()}"
