"""Whether an executed text says what the ops say: its statements against bound symbols, leaf by leaf.

The symbols are not printed again: that would ask the printer that is under suspicion, and cost more. An object that
Thunder passes by a generated name matches any such name: which object the name stands for is not looked at.
"""

from __future__ import annotations

import ast
from typing import Any

from cgverify.ir import Op, OpKind
from cgverify.verifier.semantics import Proxy, torch_literal
from cgverify.verifier.text import Text, walk


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
    if len(value.args) != len(bsym.args) or [keyword.arg for keyword in value.keywords] != list(bsym.kwargs):
        return False
    said = [leaf for argument in value.args for leaf in _said(argument, local)]
    said += [leaf for keyword in value.keywords for leaf in _said(keyword.value, local)]
    return _same(said, [leaf for argument in (*bsym.args, *bsym.kwargs.values()) for leaf in _meant(argument)])


def _dotted(node: ast.expr) -> str:
    """`a.b.c` as the text writes it; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(parts))) if isinstance(node, ast.Name) else ""


def _unwrapped(arguments: tuple[Any, ...]) -> Any:
    return arguments[0] if len(arguments) == 1 else arguments


def _targets(statement: ast.stmt) -> list[str] | None:
    """Names that a statement binds, `_` left out; None where it binds something else than names, or twice."""
    if not isinstance(statement, ast.Assign):
        return []
    names = []
    for node in walk(statement.targets):
        if isinstance(node, ast.Name):
            names.append(node.id)
        elif not isinstance(node, (ast.Tuple, ast.List)):
            return None
    return [name for name in names if name != "_"] if len(statement.targets) == 1 else None


_OBJECT = object()  # a leaf that is neither a name nor a constant


def _said(node: ast.expr | None, local: frozenset[str]) -> list[Any]:
    """The leaves of an argument as the text writes them, with marks where nests begin."""
    match node:
        case None:
            return [None]
        case ast.Name(name):
            return [("name", name) if name in local else ("global", name)]
        case ast.Constant(value):
            return [value]
        case ast.Tuple(items) | ast.List(items):
            return [("nest", len(items)), *(leaf for item in items for leaf in _said(item, local))]
        case ast.Dict(keys, values):
            return [("nest", len(keys)), *(leaf for item in (*keys, *values) for leaf in _said(item, local))]
        case ast.UnaryOp(ast.USub(), operand):
            (leaf, *rest) = _said(operand, local)
            return [-leaf] if not rest and isinstance(leaf, (int, float)) else [_OBJECT]
        case ast.Call(ast.Name("slice"), parts):
            return [("slice", len(parts)), *(leaf for part in parts for leaf in _said(part, local))]
        case ast.Call(ast.Name("float"), [ast.Constant(str(word))]):
            return [float(word)]
        case ast.Attribute() | ast.Call(ast.Attribute(ast.Name("torch"), "device")):
            return [("torch", ast.unparse(node))]
    return [_OBJECT]


def _meant(tree: Any) -> list[Any]:
    """The leaves of an argument as the bound symbol holds them, with the same marks."""
    if isinstance(tree, Proxy):
        return [("name", tree.name)]
    if isinstance(tree, dict):
        return [("nest", len(tree)), *(leaf for item in (*tree, *tree.values()) for leaf in _meant(item))]
    if isinstance(tree, (tuple, list)):
        return [("nest", len(tree)), *(leaf for item in tree for leaf in _meant(item))]
    if isinstance(tree, slice):
        parts = (tree.start, tree.stop, tree.step)
        return [("slice", len(parts)), *(leaf for item in parts for leaf in _meant(item))]
    if tree is None or tree is Ellipsis or isinstance(tree, (bool, int, float, str)):
        return [tree]
    return [("torch", torch_literal(tree)) if torch_literal(tree) else _OBJECT]


def _same(said: list[Any], meant: list[Any]) -> bool:
    return len(said) == len(meant) and all(_equal(a, b) for a, b in zip(said, meant, strict=True))


def _equal(said: Any, meant: Any) -> bool:
    if meant is _OBJECT:
        return said is _OBJECT or (isinstance(said, tuple) and said[0] in ("global", "torch"))
    if isinstance(said, tuple) and said[0] == "global":
        return bool(meant == ("name", said[1]))  # a name that nothing defines, which CG101 tells
    if isinstance(meant, float):
        return type(said) is float and repr(said) == repr(meant)  # tells 0.0 from -0.0, and calls all NaNs one
    return type(said) is type(meant) and bool(said == meant)
