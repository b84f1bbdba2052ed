"""Finds fuzz targets among the test files that pytest is given, without importing any."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

_TARGET = re.compile(r"^\s*(async +)?def \w+\([^)]*\bfuzz\b", re.MULTILINE)


def has_fuzz_targets(places: Sequence[Path], names: Sequence[str], skipped: Sequence[str]) -> bool:
    """Whether a function in some test file asks for the fixture `fuzz`.

    Args:
        places: files, and folders to look through.
        names: patterns of test files' names, as in pytest's `python_files`.
        skipped: patterns of names of folders to leave out, as in pytest's `norecursedirs`.
    """
    files = (file for place in places for file in _find_files(place, names, skipped))
    return any(_TARGET.search(file.read_text(encoding="utf-8", errors="replace")) for file in files)


def _find_files(place: Path, names: Sequence[str], skipped: Sequence[str]) -> Iterator[Path]:
    if place.is_file():
        yield place
    for folder, inside, files in os.walk(place):
        inside[:] = [name for name in inside if not _fits(name, skipped) and not _is_environment(Path(folder, name))]
        yield from (Path(folder, name) for name in files if _fits(name, names))


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").exists()
