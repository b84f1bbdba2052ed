"""Where an op stands: its trace, its place in it, its line, and the line of the user."""

from __future__ import annotations

from cgverify.diagnostics import Location
from cgverify.ir import Op, TraceView, op_text
from cgverify.verifier.semantics import TraceCtx


def locate(view: TraceView, op: Op) -> Location:
    """Where an op stands in its trace."""
    return Location(view.name, op.index, line_of(view.trace, op), op.source)


def line_of(trace: TraceCtx, op: Op) -> str:
    """The op as the trace prints it; its name alone if it cannot be printed, which CG107 tells."""
    try:
        return op_text(trace, op.bsym)
    except Exception:  # a malformed bound symbol: Thunder's printers raise whatever they meet
        return op.name
