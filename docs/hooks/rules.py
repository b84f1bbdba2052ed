"""Writes the page of the verifier's rules from their docstrings while the documentation is built."""

from __future__ import annotations

import re

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
    """Make a docstring's headings bold and its indented blocks code."""
    headings = "|".join(re.escape(heading) for heading in registry.HEADINGS)
    return re.sub(rf"^({headings})\b:?[ \t]*", r"**\1** ", manual, flags=re.MULTILINE)
