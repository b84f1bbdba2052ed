"""Reads the files that commands wrote as JSON, tells them apart by their format, and chooses the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from cgverify.report import benchmark, campaign, score

MUTANTS = score.FORMAT

Result = TypeVar("Result")

MAKERS = {
    benchmark.FORMAT: "cgverify bench --json",
    campaign.FORMAT: "cgverify campaign merge",
    MUTANTS: "cgverify mutants --json",
}


class ReadingError(Exception):
    """A file cannot be drawn; the message says in one line which, why, and what to do."""


def render_files(paths: Sequence[str]) -> str:
    """The page that belongs to some files: a benchmark alone, or a campaign, with a score of planted faults or without.

    Raises:
        ReadingError: a file cannot be read, or the files make no page together.
        PageError: jinja2 is not installed.
    """
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for path in paths:
        content = _read(path)
        kind = content["format"]
        if kind in found:
            raise ReadingError(f"{found[kind][0]} and {path} are both of format {kind}: give one of them")
        found[kind] = (path, content)
    if set(found) == {benchmark.FORMAT}:
        return _understand(*found[benchmark.FORMAT], benchmark.render_benchmark)
    if campaign.FORMAT in found and set(found) <= {campaign.FORMAT, MUTANTS}:
        planted = _understand(*found[MUTANTS], score.read_score) if MUTANTS in found else None
        return _understand(*found[campaign.FORMAT], partial(campaign.render_campaign, score=planted))
    given = " and ".join(sorted(found))
    raise ReadingError(f"no page shows {given} together: give a benchmark, or a campaign with or without mutants")


def _read(path: str) -> Mapping[str, Any]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ReadingError(f"cannot read {path}: {error.strerror}; give a file that a command wrote") from error
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or nested too deep
        raise ReadingError(f"{path} is not JSON: {_first_line(error)}; give a file that a command wrote") from error
    if not isinstance(content, dict) or content.get("format") not in MAKERS:
        makers = ", ".join(MAKERS.values())
        raise ReadingError(f"{path} holds nothing that can be drawn: give what one of these wrote: {makers}")
    if content.get("version") != 1:
        raise ReadingError(
            f"{path} has version {content.get('version')!r}, and this cgverify draws version 1: update it"
        )
    return content


def _understand(path: str, content: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Result]) -> Result:
    """What `read` makes of the content of a file, which may lack what it should have."""
    try:
        return read(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        maker = MAKERS[content["format"]]
        raise ReadingError(
            f"{path} is not what {maker} writes ({type(error).__name__}: {_first_line(error)}): write it again"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]
