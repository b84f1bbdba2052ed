"""The executed text of a trace, parsed once: what it binds, calls and loads.

Thunder executes the text of `trace.python()`, and a region's callable executes `.source`. Names are all that text has:
a local name that is also a called global makes the call hit the local.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_ALWAYS_THERE = frozenset(dir(builtins)) | {"thunder", "__function_obj", "torch", "no_autocast"}


@dataclass(frozen=True, slots=True)
class Usage:
    """What a body does with names, without repeats, in order.

    Attributes:
        local: parameters, and names it binds.
        loaded: names it loads.
        roots: names it calls, or asks for an attribute.
    """

    local: frozenset[str] = frozenset()
    loaded: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()


@dataclass(frozen=True)
class Text:
    """A parsed function.

    Attributes:
        source: the text.
        function: the function named like the trace, None if the text does not parse or has none.
        fault: why there is no function, or empty.
        line: where parsing stopped, 0 if it did not.
        parameters: names of the parameters, in order.
        imported: names the text imports.
        usage: what the body does with names.
    """

    source: str
    function: ast.FunctionDef | None
    fault: str
    line: int
    parameters: tuple[str, ...]
    imported: frozenset[str]
    usage: Usage

    def shadowed(self) -> Iterator[str]:
        """Local names that are called, or asked for an attribute, like a global."""
        return (name for name in self.usage.roots if name in self.local)

    def unresolved(self) -> Iterator[str]:
        """Names the body loads that are neither local nor imported nor always there."""
        reach = self.local | self.imported | _ALWAYS_THERE
        return (name for name in self.usage.loaded if name not in reach)

    @property
    def local(self) -> frozenset[str]:
        """Parameters and all names the body binds."""
        return self.usage.local

    @property
    def statements(self) -> list[ast.stmt]:
        """The body's statements."""
        return [] if self.function is None else self.function.body


def unprintable(error: Exception) -> Text:
    """What stands for the text of a trace that cannot be printed."""
    reason = str(error).split("\n", 1)[0] or "no reason given"
    return Text("", None, f"printing it raises {type(error).__name__}: {reason}", 0, (), frozenset(), Usage())


def parse_text(source: str, name: str) -> Text:
    """Parses the text, compiles it unless it is so plain that it compiles, and looks for the function."""
    try:
        module = ast.parse(source)
        function = next((n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == name), None)
        body = [] if function is None else walk(function.body)
        if function is None or "__debug__" in source or not _is_plain(module, function, body):
            compile(module, f"<{name}>", "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 0
        return Text(source, None, f"{getattr(error, 'msg', None) or error}", line, (), frozenset(), Usage())
    imported = frozenset(
        (alias.asname or alias.name).split(".")[0]
        for node in module.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    )
    if function is None:
        return Text(source, None, f"it defines no function `{name}`", 0, (), imported, Usage())
    parameters = tuple(argument.arg for argument in _arguments(function))
    return Text(source, function, "", 0, parameters, imported, _find_usage(body, parameters))


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


# What the parser accepts of these, the compiler does too, but for what `parse_text` and `_is_plain` look for.
_PLAIN_STATEMENTS = (ast.Assign, ast.Delete, ast.Expr, ast.Return, ast.Pass)
_PLAIN_NODES = (ast.Name, ast.Constant, ast.Call, ast.keyword, ast.Attribute, ast.Tuple, ast.List, ast.Dict)
_PLAIN_SIGNS = (ast.UnaryOp, ast.USub, ast.Not, ast.Subscript, ast.Slice)
_PLAIN = frozenset((*_PLAIN_STATEMENTS, *_PLAIN_NODES, *_PLAIN_SIGNS))


def _is_plain(module: ast.Module, function: ast.FunctionDef, body: list[ast.AST]) -> bool:
    """Whether a text that parses is certain to compile; to compile it costs half as much again as to parse it."""
    for statement in module.body:
        if statement is not function and not isinstance(statement, (ast.Import, ast.ImportFrom)):
            return False
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            return False
    given = function.args
    if given.vararg or given.kwarg or given.defaults or given.kw_defaults:
        return False
    if not (_are_distinct(argument.arg for argument in _arguments(function)) and _PLAIN.issuperset(map(type, body))):
        return False
    calls = (node for node in body if isinstance(node, ast.Call) and len(node.keywords) > 1)
    return all(_are_distinct(keyword.arg for keyword in call.keywords) for call in calls)


def _are_distinct(names: Iterable[str | None]) -> bool:
    given = list(names)
    return len(set(given)) == len(given)


def _find_usage(body: list[ast.AST], parameters: tuple[str, ...]) -> Usage:
    """What a body does with names."""
    local = set(parameters)
    loaded: dict[str, None] = {}
    roots: dict[str, None] = {}
    for node in body:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                loaded[node.id] = None
            elif isinstance(node.ctx, ast.Store):
                local.add(node.id)
        elif isinstance(node, (ast.Call, ast.Attribute)):
            target = node.func if isinstance(node, ast.Call) else node.value
            if isinstance(target, ast.Name):
                roots[target.id] = None
    return Usage(frozenset(local), tuple(loaded), tuple(roots))


_LEAVES = (ast.Name, ast.Constant)


def walk(statements: Iterable[ast.AST]) -> list[ast.AST]:
    """As `ast.walk` over each statement, without contexts; at a third of the cost."""
    nodes: list[ast.AST] = list(statements)
    for node in nodes:  # grows while it is walked
        if isinstance(node, _LEAVES):
            continue
        for field in node._fields:
            value = None if field == "ctx" else getattr(node, field, None)
            if type(value) is list:
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes
