"""Adds the page on how cgverify works, promises and words, which lives beside the code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import cgverify

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

SOURCE = Path(cgverify.__file__).with_name("README.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add ``inside.md``, a copy of the package's own page."""
    from mkdocs.structure.files import File  # here, so that it can be imported without mkdocs

    files.append(File.generated(config, "inside.md", content=SOURCE.read_text(encoding="utf-8")))
    return files
