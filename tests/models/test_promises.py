"""The table of README.md: what was tried, and who keeps it."""

from __future__ import annotations

from pathlib import Path

import cgverify
from cgverify.recipes.peers import CGVERIFY, THUNDER, quiet
from cgverify.recipes.promises import render_markdown, try_all

README = Path(cgverify.__file__).parents[1] / "README.md"


def test_table_of_the_readme() -> None:
    """README.md shows what the recipe finds on the emulation, where Thunder and cgverify keep all."""
    with quiet():
        rows = try_all("emulated")
    assert [row.claim for row in rows if (row.held[THUNDER], row.held[CGVERIFY]) != ("yes", "yes")] == []
    assert render_markdown(rows) in README.read_text(encoding="utf-8")
