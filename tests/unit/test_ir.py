"""The view of a trace agrees with Thunder's own accessors."""

from __future__ import annotations

from cgverify.ir import OpKind, view_trace
from tests.builders import TraceBuilder

import pytest


def test_reads_definitions_and_uses_are_found_by_name() -> None:
    """Each op's reads and outputs are those of its bound symbol, and uses list the readers in order."""
    build = TraceBuilder("x", "y")
    a = build.op("add", build["x"], build["y"])
    b = build.op("mul", a, build["x"])
    view = view_trace(build.done(b, a, b))
    assert view.parameters == ("x", "y")
    assert [op.kind for op in view.ops[:2]] == [OpKind.PARAMETER] * 2
    add, mul, end = view.ops[2:]
    assert (add.reads, add.defines) == (("x", "y"), (a.name,))
    assert (mul.reads, mul.defines) == ((a.name, "x"), (b.name,))
    assert view.definitions[a.name] == add.index
    assert view.uses["x"] == (add.index, mul.index)
    assert view.uses[a.name] == (mul.index, end.index)
    assert view.returned == (b.name, a.name, b.name)


def test_an_output_that_is_an_argument_is_no_definition() -> None:
    """`copy_` returns a new name; an op that returns its own argument defines nothing."""
    build = TraceBuilder("x", "y")
    written = build.op("copy_", build["x"], build["y"], grad_enabled=False)
    view = view_trace(build.done(written))
    op = view.ops[2]
    assert op.defines == tuple(name for name in op.outputs if name not in op.reads)
    assert written.name in op.outputs


def test_something_that_is_no_trace_is_refused_by_name() -> None:
    """A string is refused with its type and the way to get a trace."""
    with pytest.raises(TypeError, match=r"got str: pass for example thunder\.last_traces"):
        view_trace("computation")  # type: ignore[arg-type]


def test_text_is_the_printed_line_without_comments() -> None:
    """An op's text is its line in the trace, cut to a bounded length."""
    build = TraceBuilder("x", "y")
    result = build.op("add", build["x"], build["y"])
    view = view_trace(build.done(result))
    assert view.text(view.ops[2]).startswith(f"{result.name} = torch.add(x, y")
