"""Writes the page of all messages of errors and warnings, read off the code, while the documentation is built."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cgverify

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

PACKAGE = Path(cgverify.__file__).parent

HOLE = "…"
"""Stands for what a message says of the case at hand."""

ELSEWHERE = ("emulation",)
"""Parts whose messages are PyTorch's own, as CUDA graphs have them."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message in the code.

    Attributes:
        kind: the class of the exception; `warnings.warn` for a warning.
        text: the message with `HOLE` for each value.
        file: path in the package.
        line: of the statement.
    """

    kind: str
    text: str
    file: str
    line: int


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add ``messages.md``, which is on no disk."""
    from mkdocs.structure.files import File  # here, so that a test can read messages without mkdocs

    files.append(File.generated(config, "messages.md", content=render_messages()))
    return files


def render_messages() -> str:
    """A heading for each class, then its messages in the order of the alphabet."""
    lines = ["# Messages", "", f"What each error and warning says, read off the code; `{HOLE}` is filled in.", ""]
    by_kind: dict[str, list[Message]] = defaultdict(list)
    for message in find_messages():
        by_kind["Warnings" if message.kind == "warnings.warn" else message.kind.rpartition(".")[2]].append(message)
    for kind in sorted(by_kind):
        lines += [f"## {kind}", ""]
        texts = sorted({(message.text, message.file) for message in by_kind[kind]})
        lines += [f"- `{' '.join(text.split())}` ({file})" for text, file in texts]
        lines.append("")
    return "\n".join(lines)


def find_messages() -> Iterator[Message]:
    """Yield the message of each ``raise`` and each ``warnings.warn`` that is written where it stands."""
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if file.split("/")[0] in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = _said_by(node)
            text = _template(call.args[0]) if call is not None and call.args else None
            if call is not None and text is not None and text.strip(HOLE):
                yield Message(ast.unparse(call.func), text, file, call.lineno)


def _said_by(node: ast.AST) -> ast.Call | None:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return node.exc
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
        return node
    return None


def _template(node: ast.expr) -> str | None:
    """The text of a string or an f-string; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (_template(node.left) or HOLE) + (_template(node.right) or HOLE)
    return None
