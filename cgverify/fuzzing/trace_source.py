"""Writes the directly built trace of a program as straight-line Python; mirrors :mod:`cgverify.fuzzing.tracing`."""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.pool import Dtype, On, Ref, Statement
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.tracing import Form, returned, symbol_path, view_groups
from cgverify.fuzzing.values import TORCH_DTYPES, TensorType


def render_trace_source(resolved: Resolved, form: Form) -> str:
    """Return the source of a function `build()` that returns the trace."""
    return _Writer(resolved).write(form)


class _Writer:
    """The newest Python name of each value, as tracing's builder keeps the newest proxy."""

    def __init__(self, resolved: Resolved) -> None:
        self.resolved = resolved
        self.names: dict[int, str] = {}
        self.lines: list[str] = []
        self.count = 0
        self.groups: dict[int, int] = {}

    def write(self, form: Form) -> str:
        for number, entry in enumerate(self.resolved.inputs):
            name = self.names[number] = f"x{number}"
            device = "cuda:0" if entry.device == "cuda" else "cpu"
            tags = "" if entry.role == "arg" else ", tags={ProxyTag.STATIC_MEMORY_LOCATION}"
            dtype = f"dtypes.to_dtype({TORCH_DTYPES[entry.dtype]})"
            place = f'device=devices.to_device("{device}"), dtype={dtype}, requires_grad={entry.trains}'
            self.lines.append(f'{name} = TensorProxy("{name}", shape={entry.shape!r}, {place}{tags})')
            self.lines.append(f'prims.unpack_trivial({name}, name="{name}")')
            kind = self.resolved.types[number]
            self.groups[number] = kind.storage if isinstance(kind, TensorType) else -1
        parameters = ", ".join(f"x{number}" for number in range(len(self.resolved.inputs)))
        for statement in self.resolved.statements:
            self._add(statement)
        results = "".join(f"{self.names[number]}, " for number in returned(self.resolved))
        inputs = ", ".join(self.names[number] for number in range(len(self.resolved.inputs)))
        output = f"({results.rstrip()})" if results else "()"
        final = f'{{"output": {output}, "flat_args": [{inputs}]}}' if form == "dict" else output
        body = [*self.lines, f"prims.python_return({final})"]
        return "\n".join(
            [
                "def build():",
                '    """Return the execution trace, made of the symbols that Thunder itself would use."""',
                "    trace = TraceCtx(None)",
                "    with tracectx(trace):",
                *(f"        {line}" for line in body),
                f"    trace.args = ({parameters}{',' if parameters else ''})",
                "    trace.kwargs = {}",
                '    trace._siginfo = SigInfo("computation")',
                "    trace._siginfo.args = [(proxy.name, None) for proxy in trace.args]",
                "    return del_last_used(trace)",
                "",
            ]
        )

    def _add(self, statement: Statement) -> None:
        if statement.writes is not None and not statement.results:
            self._write_in_place(statement, statement.writes)
            return
        names = [self._new_name() for _ in statement.results]
        self.lines.append(f"{', '.join(names)} = {self._compute(statement)}")
        self.names.update(zip(statement.results, names, strict=True))
        self.groups.update(view_groups(statement, self.resolved, self.groups))

    def _write_in_place(self, statement: Statement, target: int) -> None:
        self._update_aliases(target)
        content = self._argument(statement.args[1]) if statement.symbol.name == "copy_" else self._compute(statement)
        if self._may_convert(statement, target):
            made, dtype = self._new_name(), TORCH_DTYPES[self._tensor(target).dtype]
            self.lines.append(f"{made} = {content}")
            self.lines.append(f"if {made}.dtype != {self.names[target]}.dtype:")
            self.lines.append(f"    {made} = torchex.to({made}, {dtype}, copy=True)")
            content = made
        name = self._new_name()
        self.lines.append(f"{name} = torchex.copy_({content}, {self.names[target]}, grad_enabled=True)")
        self.names[target] = name
        self._update_aliases(target)

    def _may_convert(self, statement: Statement, target: int) -> bool:
        """Whether the new content may have another dtype than its destination, by torch's rules or by Thunder's."""
        kinds = (self.resolved.types[number] for number in statement.reads())
        dtypes = {kind.dtype for kind in kinds if isinstance(kind, TensorType)}
        return statement.symbol.name == "gt" or dtypes != {self._tensor(target).dtype}

    def _tensor(self, number: int) -> TensorType:
        kind = self.resolved.types[number]
        if not isinstance(kind, TensorType):
            raise TypeError(f"value {number} is a number, which nothing can write in place")
        return kind

    def _update_aliases(self, target: int) -> None:
        group = [number for number, found in self.groups.items() if found == self.groups[target]]
        new = [self._new_name() for _ in group]
        old = ", ".join(self.names[number] for number in group)
        self.lines.append(f"({', '.join(new)},) = torchex.update_aliases(({old},))")
        self.names.update(zip(group, new, strict=True))

    def _compute(self, statement: Statement) -> str:
        symbol = statement.symbol
        args = [self._argument(arg) for arg in symbol.args]
        args += [f"{key}={self._argument(value)}" for key, value in symbol.kwargs.items()]
        return f"{symbol_path(statement)}({', '.join(args)})"

    def _argument(self, argument: Any) -> str:
        match argument:
            case Ref(value):
                return self.names[value]
            case Dtype(name):
                return TORCH_DTYPES[name]
            case On(name):
                return f'torch.device("{"cuda:0" if name == "cuda" else "cpu"}")'
            case tuple():
                inner = ", ".join(self._argument(item) for item in argument)
                return f"({inner}{',' if len(argument) == 1 else ''})"
            case _:
                return repr(argument)

    def _new_name(self) -> str:
        self.count += 1
        return f"p{self.count}"
