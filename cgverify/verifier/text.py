"""The executed text of a trace, parsed once: what it binds, calls and loads, and whether it says what the ops say.

Thunder executes the text of `trace.python()`, and a region's callable executes `.source`. Names are all that text has:
a local name that is also a called global makes the call hit the local. Statements are compared with bound symbols leaf
by leaf, without printing the symbols again; objects that Thunder passes by a generated name match anything.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cgverify.ir import Op, OpKind
from cgverify.verifier.semantics import Proxy, torch_literal

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
        if "__debug__" in source or not all(map(_is_plain, module.body)):
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
    function = next((n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == name), None)
    if function is None:
        return Text(source, None, f"it defines no function `{name}`", 0, (), imported, Usage())
    arguments = function.args
    parameters = tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
    return Text(source, function, "", 0, parameters, imported, _find_usage(function, parameters))


# What the parser accepts of these, the compiler does too, but for what `parse_text` and `_is_plain` look for.
_PLAIN = frozenset(
    {
        *(ast.Assign, ast.Delete, ast.Expr, ast.Return, ast.Pass, ast.Import, ast.alias, ast.FunctionDef),
        *(
            ast.arguments,
            ast.arg,
            ast.Name,
            ast.Constant,
            ast.Call,
            ast.keyword,
            ast.Attribute,
            ast.Tuple,
            ast.List,
            ast.Dict,
        ),
        *(ast.UnaryOp, ast.USub, ast.Not, ast.Subscript, ast.Slice),
    }
)


def _is_plain(statement: ast.stmt) -> bool:
    """Whether a statement of a module that parses is certain to compile; compiling is a third of the cost of a text."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module != "__future__"
    if not isinstance(statement, (ast.Import, ast.FunctionDef)):
        return False
    for node in _nodes(statement):
        if type(node) not in _PLAIN:
            return False
        if isinstance(node, ast.Call) and len(node.keywords) > 1:
            names = [keyword.arg for keyword in node.keywords]
            if len(set(names)) < len(names):
                return False
        if isinstance(node, ast.arguments):
            names = [argument.arg for argument in (*node.posonlyargs, *node.args, *node.kwonlyargs)]
            if len(set(names)) < len(names) or node.vararg is not None or node.kwarg is not None:
                return False
    return True


def _find_usage(function: ast.FunctionDef, parameters: tuple[str, ...]) -> Usage:
    """What the body does with names, from one walk."""
    local = set(parameters)
    loaded: dict[str, None] = {}
    roots: dict[str, None] = {}
    for statement in function.body:
        for node in _nodes(statement):
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


def _nodes(tree: ast.AST) -> list[ast.AST]:
    """As `ast.walk`, in its order, without contexts; at half the cost."""
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # grows while it is walked
        for field in node._fields:
            value = None if field == "ctx" else getattr(node, field, None)
            if type(value) is list:
                nodes += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as the text writes it; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""


def mismatch(text: Text, ops: tuple[Op, ...]) -> tuple[Op | None, str] | None:
    """The first op that the text does not execute as the trace says, and the statement's text; None if all agree."""
    statements = iter(text.statements)
    for op in ops:
        if op.kind in (OpKind.PARAMETER, OpKind.COMMENT) or (op.kind is OpKind.UNPACK and not op.outputs):
            continue
        statement = next(statements, None)
        if statement is None:
            return op, "nothing"
        if not _agrees(statement, op, text.local):
            return op, ast.unparse(statement)
    extra = next((s for s in statements if not isinstance(s, ast.Pass)), None)
    return None if extra is None else (None, ast.unparse(extra))


def _agrees(statement: ast.stmt, op: Op, local: frozenset[str]) -> bool:
    bsym = op.bsym
    if op.kind is OpKind.DEL:
        deleted = statement.targets if isinstance(statement, ast.Delete) else []
        names = [target.id for target in deleted if isinstance(target, ast.Name)]
        return names == [proxy.name for proxy in bsym.flat_proxy_args]
    if op.kind is OpKind.RETURN:
        return isinstance(statement, ast.Return) and _same(_said(statement.value, local), _meant(_unwrapped(bsym.args)))
    if op.kind is OpKind.UNPACK:
        return _targets(statement) == [proxy.name for proxy in bsym.flat_proxy_outs]
    value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
    if not isinstance(value, ast.Call) or _dotted(value.func) != bsym.name_with_module():
        return False
    if _targets(statement) != [proxy.name for proxy in bsym.flat_proxy_outs]:
        return False
    said = [leaf for argument in value.args for leaf in _said(argument, local)]
    said += [leaf for keyword in value.keywords for leaf in _said(keyword.value, local)]
    return [k.arg for k in value.keywords] == list(bsym.kwargs) and _same(said, _meant((bsym.args, bsym.kwargs)))


def _unwrapped(arguments: tuple[Any, ...]) -> Any:
    return arguments[0] if len(arguments) == 1 else arguments


def _targets(statement: ast.stmt) -> list[str]:
    if not isinstance(statement, ast.Assign):
        return []
    names = [n.id for target in statement.targets for n in _nodes(target) if isinstance(n, ast.Name)]
    return [name for name in names if name != "_"]


_ANYTHING = object()  # a leaf that the text passes by a generated name


def _said(node: ast.expr | None, local: frozenset[str]) -> list[Any]:
    """The leaves of an argument as the text writes them."""
    if node is None:
        return [None]
    if isinstance(node, ast.Name):
        return [("name", node.id)] if node.id in local else [_ANYTHING]
    if isinstance(node, ast.Constant):
        return [node.value]
    if isinstance(node, (ast.Tuple, ast.List)):
        return [leaf for item in node.elts for leaf in _said(item, local)]
    if isinstance(node, ast.Dict):
        return [leaf for item in node.values for leaf in _said(item, local)]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        return [-number] if isinstance(number, (int, float, complex)) else [_ANYTHING]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "slice":
        return [leaf for argument in node.args for leaf in _said(argument, local)]
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "float" and node.args:
        word = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        return [float(word)] if isinstance(word, str) else [_ANYTHING]
    if isinstance(node, ast.Attribute) or (isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.device"):
        return [("torch", ast.unparse(node))]
    return [_ANYTHING]


def _meant(tree: Any) -> list[Any]:
    """The leaves of an argument as the bound symbol holds them."""
    if isinstance(tree, Proxy):
        return [("name", tree.name)]
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in _meant(item)]
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in _meant(item)]
    if isinstance(tree, slice):
        return [leaf for item in (tree.start, tree.stop, tree.step) for leaf in _meant(item)]
    if tree is None or isinstance(tree, (bool, int, float, complex, str)):
        return [tree]
    return [("torch", torch_literal(tree)) if torch_literal(tree) else _ANYTHING]


def _same(said: list[Any], meant: list[Any]) -> bool:
    return len(said) == len(meant) and all(_equal(a, b) for a, b in zip(said, meant, strict=True))


def _equal(said: Any, meant: Any) -> bool:
    if said is _ANYTHING or meant is _ANYTHING:
        return True
    if isinstance(said, float) and isinstance(meant, float) and math.isnan(said):
        return math.isnan(meant)
    return type(said) is type(meant) and bool(said == meant)
