"""The page of errors names what the code says, and every message says what to do."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import cgverify
from cgverify.runtime.guards import Refusal

ROOT = Path(cgverify.__file__).parents[1]
PAGE = (ROOT / "docs" / "errors.md").read_text()

INTERNAL = {"AttributeError", "SystemExit", "typer.Exit", "KeyError", "Fails", "Refused", "ExecutorError"}
"""What users do not meet as an error of ours: protocols of Python, and signals between our own modules."""

PLAIN = {
    "… is not proved on …\n…": "the report follows",
    "shard … raises …": "the error of the shard follows",
}
"""Messages of one part, and why that is enough."""

FOR_WRITERS = ("fuzzing/pool.py", "fuzzing/building/", "fuzzing/values.py", "fuzzing/trace_source.py")
"""Where messages are for whoever writes an operation's entry."""


def load_hook() -> ModuleType:
    """The hook of the documentation that reads messages off the code."""
    spec = importlib.util.spec_from_file_location("messages_hook", ROOT / "docs" / "hooks" / "messages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


HOOK = load_hook()
MESSAGES = [message for message in HOOK.find_messages() if message.kind not in INTERNAL]


def first_column(heading: str) -> list[str]:
    """The code spans in the first column of the table below a heading of the page."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)`", section, flags=re.MULTILINE)


def reasons() -> set[str]:
    """Each reason for which the transform leaves an op out, with the names left open, as its module writes it."""
    tree = ast.parse((ROOT / "cgverify" / "transform" / "effects.py").read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_forbidden"):
            texts = [
                HOOK._template(part.value) for part in ast.walk(node) if isinstance(part, ast.Return) and part.value
            ]
            found |= {re.sub("`?…`?", "…", text) for text in texts if text and text != "…"}
        if isinstance(node, ast.FunctionDef) and node.name == "_refused_ids":
            pairs = (part for part in ast.walk(node) if isinstance(part, ast.Tuple) and len(part.elts) == 2)
            found |= {pair.elts[1].value for pair in pairs if isinstance(pair.elts[1], ast.Constant)}
    return found


def test_every_refusal_has_a_remedy() -> None:
    """The page lists each reason for which a call runs un-graphed, and no other."""
    assert first_column("A call runs un-graphed") == [refusal.value for refusal in Refusal]


def test_every_reason_has_a_remedy() -> None:
    """The page lists each reason for which an op is left out."""
    listed = set(first_column("An op is left out"))
    assert reasons() - listed == set()
    assert {"empties a Python list", "unknown op …: not in the table of capturable ops"} <= listed


def test_what_the_page_quotes_is_in_the_code() -> None:
    """Each warning and each error of ours that the page quotes is said somewhere in the package."""
    source = "\n".join(path.read_text() for path in sorted((ROOT / "cgverify").rglob("*.py")))
    quoted = first_column("Warnings")
    assert quoted
    for text in quoted:
        pieces = [piece.strip(" `:") for piece in text.split("…")]
        assert all(piece in source for piece in pieces), text


def test_messages_are_lines_that_say_what_to_do() -> None:
    """An error that users meet is of at least two parts: what is wrong, and why or what to do."""
    assert len(MESSAGES) > 60
    parts = re.compile(r"[:;]\s|\bis neither\b|\bmust be\b|\bneeds at least\b")
    ours = [message for message in MESSAGES if not message.file.startswith(FOR_WRITERS)]
    odd = {message.text for message in ours if not parts.search(message.text)}
    assert odd - PLAIN.keys() == set()


def test_page_of_messages() -> None:
    """The generated page holds each message under its class."""
    page = HOOK.render_messages()
    assert "## CheckError" in page and "## Warnings" in page
    assert "- `no folder …: name the folder of your fuzz targets` (gate.py)" in page
