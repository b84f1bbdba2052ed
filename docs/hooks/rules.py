"""Writes the page of the verifier's rules from their docstrings while the documentation is built."""

from __future__ import annotations

import re
import textwrap

from cgverify.verifier import registry

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add ``rules.md``, which is on no disk."""
    files.append(File.generated(config, "rules.md", content=render_rules()))
    return files


def render_rules() -> str:
    """One section for each rule, by family, as ``cgverify explain`` prints it."""
    lines = ["# Rules", "", "The same text that `cgverify explain CODE` prints.", ""]
    family = None
    for rule in registry.rules():
        if rule.family != family:
            family = rule.family
            lines += [f"## {family.capitalize()}", ""]
        lines += [f"### {rule.code} {rule.name}", "", render_manual(rule.manual), ""]
    return "\n".join(lines)


def render_manual(manual: str) -> str:
    """Make each heading of a docstring bold, its text prose, and the example a block of code."""
    headings = "|".join(re.escape(heading) for heading in registry.HEADINGS)
    parts = re.split(rf"^({headings})$", manual, flags=re.MULTILINE)
    lines = [parts[0].strip()]
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        text = textwrap.dedent(body.strip("\n")).rstrip()
        lines += [f"**{heading}**", "", f"```python\n{text}\n```" if heading == "Example" else text, ""]
    return "\n".join(lines)
