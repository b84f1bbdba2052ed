"""Builds the Thunder execution trace of a resolved program without tracing anything.

Thunder's executor symbols are called under a trace, so every bound symbol has the metadata and the subsymbols that
`thunder.jit` would give it; running `thunder.jit` itself costs about ten times more. In-place writes take the form
that Thunder gives them: `update_aliases` over the storage class, the new content, a `copy_` into the old alias.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from cgverify.fuzzing.pool import Dtype, On, Ref, Statement
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.values import TORCH_DTYPES, TensorType, ValueType

import thunder.torch as ltorch
import torch
from thunder.core import devices, dtypes, prims
from thunder.core.codeutils import SigInfo
from thunder.core.proxies import ProxyTag, TensorProxy
from thunder.core.trace import TraceCtx, tracectx
from thunder.core.transform_common import unwrap_return_value
from thunder.executors import pythonex, torchex
from thunder.executors.passes import del_last_used

Form = Literal["dict", "tuple"]
"""How RETURN looks: `dict` as inside thunder.jit (results and flat arguments), `tuple` as in the final trace."""

KNOWN_VIEWS = {symbol.name for symbol in (*ltorch._syms_returning_views, *ltorch._syms_that_may_return_views)}
"""Names of the ops that Thunder knows to return, perhaps, a view of an argument."""

DTYPES = {name: getattr(torch, path.removeprefix("torch.")) for name, path in TORCH_DTYPES.items()}


def build_trace(resolved: Resolved, form: Form = "dict") -> TraceCtx:
    """Return the execution trace `computation` of a program, with its DELs.

    Its parameters are `x0, x1, ...`, one for each input. The proxies of parameters and buffers carry
    STATIC_MEMORY_LOCATION, as in a module that Thunder compiled.
    """
    trace = TraceCtx(None)
    with tracectx(trace):
        builder = _Builder(resolved)
        for statement in resolved.statements:
            builder.add(statement)
        results = tuple(builder.proxies[number] for number in returned(resolved))
        if form == "dict":
            inputs = [builder.proxies[number] for number in range(len(resolved.inputs))]
            prims.python_return({"output": results, "flat_args": inputs})
        else:
            prims.python_return(results)
    trace.args = builder.parameters
    trace.kwargs = {}
    signature = SigInfo("computation")
    signature.args = [(proxy.name, None) for proxy in builder.parameters]
    trace._siginfo = signature
    finished: TraceCtx = del_last_used(trace)
    return finished


def returned(resolved: Resolved) -> tuple[int, ...]:
    """Return the numbers of the values the trace returns: the outputs without None and without repeats, as Thunder
    does.
    """
    return tuple(dict.fromkeys(n for n in resolved.outputs if n is not None))


def trace_callable(trace: TraceCtx, resolved: Resolved, form: Form = "dict") -> Callable[..., tuple[Any, ...]]:
    """Return a function of all inputs that runs `trace` and gives the program's outputs, None and repeats restored."""
    run = (unwrap_return_value(trace) if form == "dict" else trace).python_callable()
    places = {number: place for place, number in enumerate(returned(resolved))}
    order = [None if number is None else places[number] for number in resolved.outputs]

    def call(*inputs: Any) -> tuple[Any, ...]:
        results: Sequence[Any] = run(*inputs)
        return tuple(None if place is None else results[place] for place in order)

    return call


def find_symbol(statement: Statement) -> Any:
    """Return the executor symbol that Thunder would use for a statement.

    Where a module of Thunder defines a symbol by name it is the one that Thunder uses; a table entry of the same id
    may stand for another function (`torch.dropout`, say, for `torch.nn.functional.dropout`).
    """
    name = statement.symbol.name
    if statement.function.startswith("operator."):
        return pythonex.ex.opmap[name]
    return getattr(torchex, name, None) or torchex.ex.opmap[name]


def symbol_path(statement: Statement) -> str:
    """Return the Python expression for :func:`find_symbol`."""
    name = statement.symbol.name
    if statement.function.startswith("operator."):
        return f'pythonex.ex.opmap["{name}"]'
    return f"torchex.{name}" if getattr(torchex, name, None) is not None else f'torchex.ex.opmap["{name}"]'


class _Builder:
    """The proxies made so far, by value number; each is the newest alias of its value."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        self.proxies: dict[int, Any] = {}
        for number, entry in enumerate(resolved.inputs):
            kind = resolved.types[number]
            self.proxies[number] = TensorProxy(
                f"x{number}",
                shape=entry.shape,
                device=devices.to_device("cuda:0" if entry.device == "cuda" else "cpu"),
                dtype=dtypes.to_dtype(DTYPES[entry.dtype]),
                requires_grad=isinstance(kind, TensorType) and kind.needs_grad,
                tags=set() if entry.role == "arg" else {ProxyTag.STATIC_MEMORY_LOCATION},
            )
            prims.unpack_trivial(self.proxies[number], name=f"x{number}")
        self.parameters = tuple(self.proxies.values())
        self.groups = {number: _storage(resolved.types[number]) for number in self.proxies}

    def add(self, statement: Statement) -> None:
        """Add the bound symbols of one statement."""
        if statement.writes is not None and not statement.results:
            self._write(statement, statement.writes)
            return
        result = self._compute(statement)
        made = result if len(statement.results) > 1 else (result,)
        self.proxies.update(zip(statement.results, made, strict=True))
        self.groups.update(view_groups(statement, self.resolved, self.groups))

    def _compute(self, statement: Statement) -> Any:
        symbol = statement.symbol
        compute = find_symbol(statement)
        args = [self._argument(arg) for arg in symbol.args]
        return compute(*args, **{key: self._argument(value) for key, value in symbol.kwargs.items()})

    def _write(self, statement: Statement, target: int) -> None:
        """Bring the storage class up to date, compute the new content, copy it in, and rename the class again."""
        self._update_aliases(target)
        content = self._argument(statement.args[1]) if statement.symbol.name == "copy_" else self._compute(statement)
        into = self.proxies[target]
        if content.dtype != into.dtype:
            # Thunder's own idea of the promoted dtype may be wider than the destination's; it then converts, as here.
            content = torchex.to(content, dtypes.to_torch_dtype(into.dtype), copy=True)
        self.proxies[target] = torchex.copy_(content, into, grad_enabled=True)
        self._update_aliases(target)

    def _update_aliases(self, target: int) -> None:
        group = [number for number, found in self.groups.items() if found == self.groups[target]]
        renamed = torchex.update_aliases(tuple(self.proxies[number] for number in group))
        self.proxies.update(zip(group, renamed, strict=True))

    def _argument(self, argument: Any) -> Any:
        match argument:
            case Ref(value):
                return self.proxies[value]
            case Dtype(name):
                return DTYPES[name]
            case On(name):
                return torch.device("cuda:0" if name == "cuda" else "cpu")
            case tuple():
                return tuple(self._argument(item) for item in argument)
            case _:
                return argument


def view_groups(statement: Statement, resolved: Resolved, groups: dict[int, int]) -> dict[int, int]:
    """Return the groups of a statement's results, by value number: values that Thunder knows to share memory.

    Thunder knows some ops as views, and before and after a write renames only what they made. A view made by another op
    (`torch.ravel`) keeps its name, so that the order of the text alone keeps its reads right.
    """
    base = next(statement.reads(), None)
    found = {}
    for number in statement.results:
        kind = resolved.types[number]
        if not isinstance(kind, TensorType):
            continue
        is_view = base is not None and _storage(resolved.types[base]) == kind.storage
        known = is_view and statement.symbol.name in KNOWN_VIEWS
        # Negative numbers cannot meet the storage classes by which inputs are grouped.
        found[number] = groups[base] if known and base is not None else -number - 1
    return found


def _storage(kind: ValueType) -> int:
    return kind.storage if isinstance(kind, TensorType) else -1
