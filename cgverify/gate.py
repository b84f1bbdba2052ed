"""The work of ``cgverify gate``: runs fuzz targets under pytest, and judges from what they wrote whether they may pass.

pytest's own exit code is not enough for a gate: a run in which no program ran, or none on the device that was asked
for, is green and proves nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cgverify.fuzzing.pytest_plugin import PROPERTY
from cgverify.fuzzing.summary import render_summary
from cgverify.wording import counted

import pytest

PLUGIN = "cgverify.fuzzing.pytest_plugin"

OUTPUT = Path(".cgverify")
"""Where a run leaves all that it writes, in the current folder."""


class GateError(Exception):
    """The gate could not be run; the message says in one line what, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be run.

    Attributes:
        folder: of the fuzz targets.
        target: the transform under test.
        device: `auto`, `emulated` or `cuda`; with `cuda` nothing else will do.
        workers: for pytest-xdist: a number or `auto`.
        options: for the plugin, by name without `--cgverify-`; those that are None are left out.
        quiet: send what pytest prints to standard error.
    """

    folder: Path
    target: str
    device: str
    workers: str
    options: Mapping[str, object]
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it.

    Attributes:
        target: the transform under test.
        device: where programs ran: `cuda`, `emulated`, or empty if none did.
        outcomes: what shards did, as plain data (see :mod:`cgverify.fuzzing.outcome`).
        problems: why the gate is closed, one line each; none if it is open.
        broken: fuzz targets that failed otherwise than by a shard's outcome: name and message.
    """

    target: str
    device: str
    outcomes: list[dict[str, Any]]
    problems: tuple[str, ...]
    broken: tuple[tuple[str, str], ...]

    @property
    def programs(self) -> int:
        """How many programs were judged."""
        return sum(outcome["programs"] for outcome in self.outcomes)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Distinct failures, by key."""
        found = {failure["key"]: failure for outcome in self.outcomes for failure in outcome["failures"]}
        return [found[key] for key in sorted(found)]


def run_gate(request: Request) -> Result:
    """Runs pytest and reads what it left in `OUTPUT`, beside scripts and journal.

    Raises:
        GateError: the folder is missing, or pytest could not run.
    """
    if not request.folder.is_dir():
        raise GateError(f"no folder {request.folder}: name the folder of your fuzz targets")
    OUTPUT.mkdir(exist_ok=True)
    junit = OUTPUT.resolve() / "junit.xml"
    junit.unlink(missing_ok=True)
    code = subprocess.run(
        _command(request, junit), check=False, stdout=sys.stderr if request.quiet else None
    ).returncode
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise GateError(f"pytest ended with exit code {code}, see above; nothing was judged")
    if not junit.is_file():
        raise GateError(f"pytest wrote no {junit}; nothing was judged")
    return judge_run(request, code, junit)


def _command(request: Request, junit: Path) -> list[str]:
    registered = any(point.value == PLUGIN for point in metadata.entry_points(group="pytest11"))
    options = {"target": request.target, "device": request.device, **request.options}
    return [
        *(sys.executable, "-m", "pytest", str(request.folder), "-n", request.workers),
        *(() if registered else ("-p", PLUGIN)),
        *("-q", f"--rootdir={Path.cwd()}", f"--junitxml={junit}", "-p", "no:cacheprovider"),
        *(f"--cgverify-{name}={value}" for name, value in options.items() if value is not None),
    ]


def judge_run(request: Request, code: int, junit: Path) -> Result:
    """Judges a run by pytest's exit code and its JUnit file."""
    suites = ElementTree.parse(junit).getroot()
    totals = {entry.get("name"): entry.get("value", "") for entry in suites.iterfind("testsuite/properties/property")}
    outcomes = [
        json.loads(entry.get("value", "")) for entry in suites.iter("property") if entry.get("name") == PROPERTY
    ]
    broken = tuple(_find_broken(suites))
    device = totals.get("cgverify-device", "")
    found = Result(request.target, device, outcomes, (), broken)
    problems = list(_find_problems(found, request, code))
    return Result(request.target, device, outcomes, tuple(problems), broken)


def _find_broken(suites: ElementTree.Element) -> Iterator[tuple[str, str]]:
    for case in suites.iter("testcase"):
        names = {entry.get("name") for entry in case.iter("property")}
        for fault in (*case.iterfind("failure"), *case.iterfind("error")):
            if PROPERTY not in names:
                yield f"{case.get('classname')}::{case.get('name')}", fault.get("message", "")


def _find_problems(found: Result, request: Request, code: int) -> Iterator[str]:
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        yield f"no fuzz target was found in {request.folder}"
    elif not found.programs:
        yield "no program ran"
    elif request.device == "cuda" and found.device != "cuda":
        yield f"no program ran on a GPU: {found.programs} ran on {found.device or 'nothing'}"
    if found.failures:
        yield f"distinct failures: {len(found.failures)} in {counted(found.programs, 'program')}"
    if found.broken:
        first = next(iter(found.broken[0][1].splitlines()), "no message")
        yield f"fuzz targets that failed otherwise: {len(found.broken)}, the first with: {first}"
    if code == pytest.ExitCode.TESTS_FAILED and not found.failures and not found.broken:
        yield "too little happened in the run for it to prove anything, see the lines FAILED above"


def render_markdown(found: Result) -> str:
    """A page for people: verdict, rates, then each distinct failure with its program."""
    verdict = "closed" if found.problems else "open"
    lines = [f"## cgverify gate: {verdict}", "", *(f"- {problem}" for problem in found.problems)]
    lines += [
        "",
        f"Target `{found.target}`, device `{found.device or 'none'}`, {counted(found.programs, 'program')}.",
        "",
    ]
    summary = render_summary(found.outcomes, graphs=found.target != "none")
    lines += ["```text", *summary, "```", ""]
    for failure in found.failures:
        lines += [f"### {failure['invariant']}", "", failure["evidence"], ""]
        lines += ["```python", failure["source"].rstrip(), "```", ""]
        lines += [f"Reproduce: `python {failure['script']}`", ""]
    return "\n".join(lines)


def render_annotations(found: Result) -> list[str]:
    """Workflow commands of GitHub: one error for each problem and for each distinct failure."""
    lines = [_annotation("cgverify gate", problem) for problem in found.problems]
    for failure in found.failures:
        text = f"{failure['evidence']}\n\n{failure['source']}\nreproduce: python {failure['script']}"
        lines.append(_annotation(f"cgverify: {failure['invariant']}", text))
    return lines + [_annotation(f"cgverify: {name}", message) for name, message in found.broken]


def _annotation(title: str, message: str) -> str:
    def escape(text: str, more: str = "") -> str:
        for character in "%\r\n" + more:
            text = text.replace(character, f"%{ord(character):02X}")
        return text

    return f"::error title={escape(title, ':,')}::{escape(message)}"


def publish(found: Result) -> None:
    """Writes the page beside the other output, and adds it to the summary of a GitHub workflow's step."""
    page = render_markdown(found)
    (OUTPUT / "summary.md").write_text(page, encoding="utf-8")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(page + "\n")
