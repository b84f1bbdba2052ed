"""Writes a resolved program as straight-line Python source, and compiles that source.

The source is what a user would write: `thunder.jit` traces it, eager PyTorch runs it, and a reproducer contains it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cgverify.fuzzing.pool import Dtype, On, Ref, Statement
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.values import TORCH_DTYPES, NumberType

INFIX = {"operator.add": "+", "operator.mul": "*"}


def value_name(resolved: Resolved, number: int) -> str:
    """Return the name of a value: `x0` for an input, `v3` for a tensor, `n4` for a number."""
    if number < len(resolved.inputs):
        return f"x{number}"
    return f"{'n' if isinstance(resolved.types[number], NumberType) else 'v'}{number}"


def render_body(resolved: Resolved) -> list[str]:
    """Return the lines of the function's body, the return included."""
    lines = [_render_statement(resolved, statement) for statement in resolved.statements]
    outputs = ["None" if n is None else value_name(resolved, n) for n in resolved.outputs]
    return [*lines, f"return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})"]


def render_source(resolved: Resolved, name: str = "program") -> str:
    """Return Python source that defines the program.

    Without parameters and buffers it is a function of the inputs `x0, x1, ...`. With them it is a subclass of
    `torch.nn.Module`, whose constructor takes the parameters and buffers and whose `forward` takes the other inputs.
    """
    body = render_body(resolved)
    arguments = [f"x{n}" for n, entry in enumerate(resolved.inputs) if entry.role == "arg"]
    if not resolved.is_module:
        return "\n".join([f"def {name}({', '.join(arguments)}):", *(f"    {line}" for line in body)]) + "\n"
    members = [(f"x{n}", entry) for n, entry in enumerate(resolved.inputs) if entry.role != "arg"]
    lines = [
        f"class {name}(torch.nn.Module):",
        f"    def __init__(self, {', '.join(member for member, _ in members)}):",
    ]
    lines.append("        super().__init__()")
    for member, entry in members:
        if entry.role == "parameter":
            lines.append(f"        self.{member} = torch.nn.Parameter({member}, requires_grad={entry.trains})")
        else:
            lines.append(f'        self.register_buffer("{member}", {member})')
    lines += ["", f"    def forward({', '.join(['self', *arguments])}):"]
    lines += [f"        {member} = self.{member}" for member, _ in members]
    return "\n".join([*lines, *(f"        {line}" for line in body)]) + "\n"


def compile_source(source: str, name: str = "program") -> Callable[..., Any]:
    """Execute rendered source and return the function or the class it defines."""
    import operator

    import torch

    namespace: dict[str, Any] = {"torch": torch, "operator": operator}
    exec(compile(source, "<program>", "exec"), namespace)
    result: Callable[..., Any] = namespace[name]
    return result


def _render_statement(resolved: Resolved, statement: Statement) -> str:
    function = statement.function
    args = [render_argument(resolved, arg) for arg in statement.args]
    args += [f"{key}={render_argument(resolved, value)}" for key, value in statement.kwargs.items()]
    if function == "setitem":
        return f"{args[0]}[{_render_key(resolved, statement.args[1])}] = {args[2]}"
    if function == "getitem":
        call = f"{args[0]}[{_render_key(resolved, statement.args[1])}]"
    elif function in INFIX:
        call = f"{args[0]} {INFIX[function]} {args[1]}"
    elif function.startswith("Tensor."):
        call = f"{args[0]}.{function.removeprefix('Tensor.')}({', '.join(args[1:])})"
    else:
        call = f"{function}({', '.join(args)})"
    names = [value_name(resolved, number) for number in statement.results]
    return f"{', '.join(names)} = {call}" if names else call


def render_argument(resolved: Resolved, argument: Any) -> str:
    """Return an argument as Python source."""
    match argument:
        case Ref(value):
            return value_name(resolved, value)
        case Dtype(name):
            return TORCH_DTYPES[name]
        case On(name):
            return f'"{name}"'
        case tuple():
            inner = ", ".join(render_argument(resolved, item) for item in argument)
            return f"({inner}{',' if len(argument) == 1 else ''})"
        case _:
            return repr(argument)


def _render_key(resolved: Resolved, key: Any) -> str:
    if isinstance(key, tuple):
        return ", ".join(_render_key(resolved, item) for item in key)
    if isinstance(key, slice):
        ends = "" if key.start is None else f"{key.start}", "" if key.stop is None else f"{key.stop}"
        return ":".join(ends) + (f":{key.step}" if key.step else "")
    return render_argument(resolved, key)
