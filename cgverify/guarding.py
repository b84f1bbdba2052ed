"""Guards for other people's transforms: `Verified` around one, `assert_verified` in its tests.

What a transform makes of the trace as recorded is compared as a stage of a pipeline (`verifier/stages.py`); what it
makes of an execution trace is proved op by op (`verifier/checker.py`).
"""

from __future__ import annotations

import threading
import warnings
import weakref
from typing import Any, Literal

from cgverify.diagnostics import Report, VerificationError
from cgverify.ir import is_backward
from cgverify.verifier import verify, verify_backward
from cgverify.verifier.contracts import Contract
from cgverify.verifier.stages import verify_stage
from cgverify.watching import Around, Pair, copy_trace

from thunder.core.trace import TraceCtx
from thunder.core.transform_common import Transform

OnUnproved = Literal["raise", "warn"]


class Verified(Around):
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
        self._compiling = threading.local()  # the forward trace, as given and as made, whose backward may come next

    def transform_traces_pre_prologue(
        self, prologue_trace: TraceCtx, computation_trace: TraceCtx, epilogue_trace: TraceCtx | None, **kwargs: Any
    ) -> tuple[TraceCtx, TraceCtx, TraceCtx | None]:
        """Let the transform rewrite the traces as recorded, and compare the computation with what it was.

        Raises:
            VerificationError: it computes something else and `on_unproved` is `"raise"`.
        """
        before = copy_trace(computation_trace)
        made = super().transform_traces_pre_prologue(prologue_trace, computation_trace, epilogue_trace, **kwargs)
        self._judge(verify_stage(before, made[1]))
        prologue, computation, epilogue = made
        return prologue, computation, epilogue

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """Let the transform rewrite an execution trace, and prove the rewrite; a backward trace with its forward trace.

        Raises:
            VerificationError: the rewrite is not proved and `on_unproved` is `"raise"`.
        """
        before = copy_trace(computation_trace)
        after = super().transform_trace_post_optimization(computation_trace, **kwargs)
        backward = is_backward(before)
        forward = self._find_forward() if backward else None
        # weakly: a trace holds its regions, and those their graphs
        self._compiling.forward = None if backward else (before, weakref.ref(after))
        if forward is None:
            self._judge(verify(before, after, contract=self._contract))
        else:
            self._judge(verify_backward(before, after, forward=forward, contract=self._contract))
        return after

    def _find_forward(self) -> Pair | None:
        """The forward trace compiled last by this thread, before and after; None once its function is gone."""
        before, find_after = getattr(self._compiling, "forward", None) or (None, None)
        after = find_after() if find_after is not None else None
        return None if before is None or after is None else (before, after)

    def _judge(self, report: Report) -> None:
        self.reports.append(report)
        if report.ok:
            return
        if self._on_unproved == "raise":
            raise VerificationError(report)
        name = type(self.transform).__name__
        warnings.warn(f"{name} is not proved on {report.subject}\n{report.render()}", RuntimeWarning, stacklevel=3)


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
