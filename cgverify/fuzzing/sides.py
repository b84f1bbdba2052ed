"""Turns a program into the functions that are compared: eager, Thunder without graphs, Thunder with the transform.

The `direct` path builds the trace and calls the transform on it, which is fast. The `jit` path goes through
`thunder.jit` as a user does, and is the only one with gradients.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from cgverify.fuzzing.program import Input
from cgverify.fuzzing.records import Side, Subject
from cgverify.fuzzing.rendering import compile_source, render_source
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.tracing import Form, trace_callable

import msgspec
import thunder
import torch
from thunder.core.trace import TraceCtx

Path = Literal["direct", "jit"]


def eager_side(resolved: Resolved, path: Path) -> Side:
    """Return the program as eager PyTorch runs it."""
    return _python_side(resolved, path, lambda function: function)


def jit_side(resolved: Resolved, transform: Any = None, **options: Any) -> tuple[Side, Callable[[], list[TraceCtx]]]:
    """Return the program as `thunder.jit` runs it, with or without a transform, and how to get its last traces.

    `options` are for `thunder.jit`, such as `executors=[...]`.
    """
    transforms = [] if transform is None else [transform]
    jitted: list[Any] = []

    def compile_it(function: Callable[..., Any]) -> Callable[..., Any]:
        jitted.append(thunder.jit(function, transforms=transforms, **options))
        result: Callable[..., Any] = jitted[-1]
        return result

    def last_traces() -> list[TraceCtx]:
        if not jitted:
            return []
        stats = thunder.compile_stats(jitted[0])  # what comes after is the caller's other function
        return [traces[-1] for traces in (stats.last_traces, stats.last_backward_traces) if traces]

    return _python_side(resolved, "jit", compile_it), last_traces


def direct_side(resolved: Resolved, form: Form, trace: TraceCtx) -> Side:
    """Return a directly built or transformed trace as a function of the program's inputs."""
    subject = Subject(trace_callable(trace, resolved, form))
    return lambda inputs: (subject, inputs)


def apply_transform(transform: Any, trace: TraceCtx) -> TraceCtx:
    """Call the transform on one execution trace, as `thunder.jit` would."""
    executors = (*thunder.get_default_executors(), *thunder.get_always_executors())
    result: TraceCtx = transform.transform_trace_post_optimization(trace, executors_list=executors)
    return result


def forget_sources() -> None:
    """Drop the source lines that Thunder registers for each compiled trace; they would pile up over thousands."""
    for key in [key for key in linecache.cache if key.startswith("thunder.")]:
        del linecache.cache[key]


def _python_side(resolved: Resolved, path: Path, wrap: Callable[[Any], Any]) -> Side:
    if path == "jit" and resolved.is_module:
        return _module_side(resolved, wrap)
    # Where the trace is built directly, parameters and buffers are parameters of the function like all others.
    plain = replace(resolved, inputs=tuple(_as_argument(entry) for entry in resolved.inputs))
    function = wrap(compile_source(render_source(plain)))
    subject = Subject(function, compile_also=wrap if path == "jit" else None)
    return lambda inputs: (subject, inputs)


def _module_side(resolved: Resolved, wrap: Callable[[Any], Any]) -> Side:
    make = compile_source(render_source(resolved))
    roles = [entry.role for entry in resolved.inputs]

    def side(inputs: list[torch.Tensor]) -> tuple[Subject, list[torch.Tensor]]:
        module = make(*(tensor.detach() for tensor, role in zip(inputs, roles, strict=True) if role != "arg"))
        function = wrap(module)

        def call(*tensors: torch.Tensor) -> Any:
            return function(*(tensor for tensor, role in zip(tensors, roles, strict=True) if role == "arg"))

        return Subject(call, wrap), [
            t if role == "arg" else getattr(module, f"x{n}")
            for n, (t, role) in enumerate(zip(inputs, roles, strict=True))
        ]

    return side


def _as_argument(entry: Input) -> Input:
    return msgspec.structs.replace(entry, role="arg")
