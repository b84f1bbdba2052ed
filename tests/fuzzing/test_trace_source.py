"""Scripts that build a trace: the source makes the trace that the fuzzer makes."""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.program import Input, Program, Step
from cgverify.fuzzing.resolution import resolve_program
from cgverify.fuzzing.strategies import programs
from cgverify.fuzzing.trace_source import render_trace_source
from cgverify.fuzzing.tracing import build_trace

import torch
from hypothesis import given, seed, settings
from thunder.core import devices, dtypes, prims
from thunder.core.codeutils import SigInfo
from thunder.core.proxies import ProxyTag, TensorProxy
from thunder.core.trace import TraceCtx, tracectx
from thunder.executors import pythonex, torchex
from thunder.executors.passes import del_last_used

NAMES: dict[str, Any] = {
    "torch": torch,
    "devices": devices,
    "dtypes": dtypes,
    "prims": prims,
    "SigInfo": SigInfo,
    "ProxyTag": ProxyTag,
    "TensorProxy": TensorProxy,
    "TraceCtx": TraceCtx,
    "tracectx": tracectx,
    "pythonex": pythonex,
    "torchex": torchex,
    "del_last_used": del_last_used,
}


def _assert_same_trace(program: Program) -> list[str]:
    """The source's trace and the fuzzer's execute the same text; return the names of its ops."""
    resolved = resolve_program(program)
    namespace = dict(NAMES)
    try:
        direct = build_trace(resolved, "dict")
    except Exception:  # Thunder refuses some programs
        return []
    exec(compile(render_trace_source(resolved, "dict"), "<trace>", "exec"), namespace)
    built = namespace["build"]()
    texts = [trace.python(print_depth=1).partition("\n")[2] for trace in (built, direct)]  # the first line has a time
    assert texts[0] == texts[1]
    return [bsym.sym.name for bsym in built.bound_symbols]


def test_what_is_written_is_converted() -> None:
    """Where Thunder computes in another dtype than the destination has, the script converts as the fuzzer does."""
    program = Program(
        inputs=(Input(shape=(3,), dtype="i32"), Input(shape=(), dtype="i64"), Input(shape=(3,))),
        steps=(Step("add_", (0, 1)), Step("setitem", (0, 1)), Step("gt_", (2, 0))),
        outputs=(0, 2),
    )
    assert "to" in _assert_same_trace(program)


@given(program=programs(history=False))
@seed(2)
@settings(max_examples=60, deadline=None, database=None)
def test_the_source_makes_the_same_trace(program: Program) -> None:
    """Whatever is drawn, the text that is executed is the same."""
    _assert_same_trace(program)
