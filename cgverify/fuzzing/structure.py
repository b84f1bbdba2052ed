"""Checks a trace's text and its interface without running anything: the oracle of the static targets.

It reads what Thunder executes, the text at print depth 1, with Python's own parser, and shares nothing with
`cgverify.verifier`: straight-line definitions and uses, no use after a del, no double del, no local that hides a
called global, the same parameters and the same RETURN as before. Bodies of regions are read the same way where the
region shows them.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from thunder.core.proxies import Proxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

ALWAYS = {"torch", "thunder", "no_autocast", "__function_obj", *dir(builtins)}


def find_faults(before: TraceCtx, after: TraceCtx) -> list[str]:
    """Return what is wrong with `after` as a rewrite of `before`, one line each; empty if nothing is."""
    faults = [*_text_faults(after)]
    if after.siginfo().args != before.siginfo().args:
        faults.append(f"parameters are {_names(after)} instead of {_names(before)}")
    if _returned(after) != _returned(before):
        faults.append(f"returns {_returned(after)} instead of {_returned(before)}")
    for bsym in after.bound_symbols:
        body = getattr((bsym._call_ctx or {}).get(bsym.sym.name), "body", None)
        if isinstance(body, TraceCtx):
            faults += [f"{bsym.sym.name}: {fault}" for fault in _text_faults(body)]
    return faults


def count_regions(trace: TraceCtx) -> int:
    """Return the number of CUDA-graph regions in a trace."""
    return sum(map(is_region, trace.bound_symbols))


def is_region(bsym: BoundSymbol) -> bool:
    """Whether a bound symbol stands for a CUDA graph."""
    return bool(bsym.sym.name.startswith("CUDAGraph"))


def _names(trace: TraceCtx) -> list[str]:
    return [name for name, _ in trace.siginfo().args]


def _returned(trace: TraceCtx) -> list[str]:
    return [leaf.name if isinstance(leaf, Proxy) else repr(leaf) for leaf in trace.bound_symbols[-1].flat_args]


def _text_faults(trace: TraceCtx) -> Iterator[str]:
    text = trace.python(print_depth=1)
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        yield f"the text is no Python: {error}"
        return
    name = trace.siginfo().name  # of what Thunder calls; an emitted text may define others
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(functions) != 1:
        yield f"the text defines {name} {len(functions)} times instead of once"
        return
    function = functions[0]
    imported = {name for node in module.body for name in _imported(node)}
    yield from _flow_faults(function, ALWAYS | imported | set(trace.python_ctx()))


def _imported(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield (alias.asname or alias.name).split(".")[0]


def _flow_faults(function: ast.FunctionDef, known: set[str]) -> Iterator[str]:
    """Walk the statements in order, with the names defined and the names deleted so far."""
    parameters = {argument.arg for argument in (*function.args.posonlyargs, *function.args.args)}
    stored = parameters | {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    live, dead = set(parameters), set[str]()
    for statement in function.body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        for name in _called(statement) & stored:
            yield f"line {statement.lineno}: the local {name} hides a global that is called"
        for node in names:
            if isinstance(node.ctx, ast.Load):
                if node.id in dead:
                    yield f"line {statement.lineno}: {node.id} is used after its del"
                elif node.id not in live and (node.id in stored or node.id not in known):
                    yield f"line {statement.lineno}: {node.id} is not defined"
        for node in names:
            if isinstance(node.ctx, ast.Del):
                if node.id not in live:
                    yield f"line {statement.lineno}: del of {node.id}, which is not defined" + (
                        " any more" if node.id in dead else ""
                    )
                live.discard(node.id)
                dead.add(node.id)
            elif isinstance(node.ctx, ast.Store):
                live.add(node.id)
                dead.discard(node.id)
    if not function.body or not isinstance(function.body[-1], ast.Return):
        yield "the last statement is not a return"
    if sum(isinstance(node, ast.Return) for node in ast.walk(function)) > 1:
        yield "there is more than one return"


def _called(statement: ast.stmt) -> set[str]:
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            root = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name):
                found.add(root.id)
    return found
