"""Executed texts: what they bind, call and load, and whether they say what bound symbols say."""

from __future__ import annotations

from cgverify.fuzzing import edits
from cgverify.ir import view_trace
from cgverify.verifier.statements import mismatch
from cgverify.verifier.text import parse_text
from tests.builders import TraceBuilder
from tests.cases.build import after_op, chain

import pytest
import torch
from thunder.core import prims
from thunder.core.trace import TraceCtx


def text_of(trace: TraceCtx) -> str:
    """The text that Thunder executes."""
    source: str = trace.python(print_depth=1)
    return source


def agrees(trace: TraceCtx, source: str) -> bool:
    """Whether the text says what the trace says."""
    view = view_trace(trace)
    return mismatch(parse_text(source, view.name), view.ops) is None


def test_names() -> None:
    """Parameters and assigned names are local; loads and call roots are told apart; attributes have roots too."""
    text = parse_text("import a.b\nfrom c import d as e\ndef f(x):\n  y = g.h(x, k.l)\n  return y", "f")
    assert text.local == {"x", "y"}
    assert text.imported == {"a", "e"}
    assert text.usage.roots == ("g", "k")
    assert list(text.unresolved()) == ["g", "k"]


def test_shadowed() -> None:
    """A local name that is called, directly or through an attribute, is shadowed; one that is only passed is not."""
    text = parse_text("def f(torch, g, z):\n  y = torch.add(z, 1)\n  return g(y)", "f")
    assert sorted(text.shadowed()) == ["g", "torch"]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def f(:\n  pass", "invalid syntax"),
        ("def f():\n  return (", "'(' was never closed"),
        ("def g():\n  pass", "it defines no function `f`"),
        ("def f(x, x):\n  pass", "duplicate argument 'x' in function definition"),
    ],
)
def test_faults(source: str, fault: str) -> None:
    """What does not parse, does not compile, or defines another function has a fault and no function."""
    text = parse_text(source, "f")
    assert text.function is None
    assert text.fault == fault


@pytest.mark.parametrize(
    "source",
    [
        "def f(x):\n  return g(a=x, a=x)",
        "def f(*x, x):\n  return x",
        "def f(x):\n  __debug__ = x",
        "def f(x):\n  x.__debug__ = 1",
        "def f(x):\n  y = x\n  global y",
        "def f(x):\n  break",
        "def f(x):\n  [x for x in (y := x)]",
        "from __future__ import braces\ndef f(x):\n  return x",
        "return 1\ndef f(x):\n  return x",
        "def f(x):\n  return (*x)",
        "def f(x):\n  nonlocal x",
        "def f(x, /, x):\n  return x",
        "def f(x):\n  return g(__debug__=x)",
        "def f(__debug__):\n  return 1",
    ],
)
def test_what_the_compiler_refuses_is_no_function(source: str) -> None:
    """Texts are compiled only where something in them is not plain, and none that the compiler refuses gets through."""
    with pytest.raises(SyntaxError):
        compile(source, "<f>", "exec")
    assert parse_text(source, "f").function is None


def test_printed_trace_agrees() -> None:
    """Thunder's own printing agrees with the bound symbols, for every kind of argument."""
    b = TraceBuilder("x", "y")
    b.op("__getitem__", b["x"], (slice(1, None), None, Ellipsis))
    b.op("full", (2, 3), float("-inf"), device=torch.device("cuda:0"), dtype=torch.float32)
    b.op("full", (2, 3), -1.5, device=torch.device("cuda:0"), dtype=torch.float32)
    b.op("cat", [b["x"], b["y"]], 0)
    b.op("to", b["x"], torch.float16, copy=True)
    b.op("contiguous", b["x"], memory_format=torch.contiguous_format)
    first, _second = b.op("topk", b["x"], 2)
    trace = b.done(first, None, 1.0)
    assert agrees(trace, text_of(trace))


def test_every_kind_of_statement_agrees() -> None:
    """DEL, comments, in-place ops and lone results are statements like others; comments are none."""
    before = chain()
    trace = after_op(before, 3, edits.deleted(before.bound_symbols[2].output), prims.comment.bind("said", output=None))
    assert agrees(trace, text_of(trace))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.add(x, y", "torch.add(y, x"),
        ("torch.add(x, y", "torch.sub(x, y"),
        ("torch.add(x, y", "torch.add(x, x"),
        ("t0 = torch", "t9 = torch"),
        ("2.0", "2"),
        ("2.0", "-2.0"),
        ("2.0", "float('nan')"),
        ("return (t2,)", "return (t1,)"),
        ("return (t2,)", "return (t2, t2)"),
        ("return (t2,)", "t2"),
        ("  t1 = ", "  x = "),
        ("  t2 = ", "  del x\n  t2 = "),
        ("  t0 = ", "  t0 = t9 = "),
        ("  t0 = ", "  t0[0] = "),
        ("  t0 = ", "  t0.grad = "),
        ("torch.exp(t1)", "torch.exp((t1,))"),
        ("torch.exp(t1)", "torch.exp(somewhere)"),
        ("return (t2,)", "return ((t2,),)"),
    ],
)
def test_changed_text_disagrees(old: str, new: str) -> None:
    """One token changed is found."""
    trace = chain()
    source = text_of(trace)
    assert old in source
    assert not agrees(trace, source.replace(old, new))


def test_every_constant_counts() -> None:
    """Zeros of two signs, nests of another shape, other slices and names in place of constants are told apart."""
    b = TraceBuilder("x", "y")
    b.op("mul", b["x"], 0.0)
    b.op("__getitem__", b["x"], (slice(1, None), 0))
    trace = b.done(b.op("cat", [b["x"], b["y"]], 0))
    source = text_of(trace)
    for old, new in (
        ("0.0", "-0.0"),
        ("0.0", "scale"),
        ("slice(1, None, None)", "slice(1, None)"),
        ("slice(1, None, None)", "(1, None, None)"),
        ("[x, y], 0", "[x, [y]], 0"),
        ("[x, y], 0", "[x], y, 0"),
    ):
        assert old in source.replace("slice(1,None,None)", "slice(1, None, None)")
        assert not agrees(trace, source.replace("slice(1,None,None)", "slice(1, None, None)").replace(old, new))


def test_shorter_and_longer_text_disagree() -> None:
    """A missing statement and one too many are found; a trailing `pass` says nothing."""
    trace = chain()
    source = text_of(trace)
    assert not agrees(trace, source.replace("  return (t2,)", ""))
    assert not agrees(trace, source + "\n  x = 1")
    assert agrees(trace, source + "\n  pass")
