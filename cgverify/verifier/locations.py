"""Where an op stands: its trace, its place in it, its line, and the line of the user."""

from __future__ import annotations

from cgverify.diagnostics import Location
from cgverify.ir import Op, OpKind, TraceView, op_text
from cgverify.verifier.semantics import TraceCtx


def locate(view: TraceView, op: Op) -> Location:
    """Where an op stands in its trace; one that stands for several begins at the line of the first."""
    begins = next((child.source for child in op.children if child.source), None) if op.is_fusion else None
    return Location(view.name, op.index, line_of(view.trace, op), op.source, begins)


def line_of(trace: TraceCtx, op: Op) -> str:
    """The op as the trace prints it; its name alone if it cannot be printed, which CG107 tells."""
    if op.kind is OpKind.PARAMETER:  # it prints as part of the signature
        return f"parameter {', '.join(op.outputs)}"
    try:
        return op_text(trace, op.bsym)
    except Exception:  # a malformed bound symbol: Thunder's printers raise whatever they meet
        return op.name
