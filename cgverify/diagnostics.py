"""Diagnostics and reports: what a check found, where, with what evidence, and how to say it.

Message shape: the first line says what is wrong in the trace's own names and stands alone; why says what comes of it;
notes carry the evidence, each with a location where there is one; help says what to change. A report as text explains
the words it uses, for whoever reads one for the first time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from cgverify.columns import lay_out, shorten, wrap
from cgverify.wording import counted

Format = Literal["text", "json", "github"]
FORMATS: tuple[Format, ...] = ("text", "json", "github")


WORDS = {
    "region": "a region is a group of ops that a transform made one call, such as a CUDA graph",
    "body": "the body of a region is its ops",
    "plan": "the plan of a region is what the transform declares about it",
    "replay": "a replay runs a CUDA graph again, on the memory of its capture",
    "warm-up": "a warm-up runs the ops before the capture, to get their kernels ready",
    "backward trace": "the backward trace computes gradients from what the forward trace saves",
}
"""Words of messages that not everybody knows, each with what it means."""


class Severity(Enum):
    """How bad a finding is: an error breaks the proof, a warning and a note do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Location:
    """Where something stands.

    Attributes:
        trace: the trace's function name, with the side where it matters: `computation`, `computation (before)`,
            `CUDAGraph0`.
        op: index of the bound symbol in that trace, None for the trace as a whole.
        text: the op as the trace prints it.
        source: `file:line` of the user's code, where known.
        begins: for an op that stands for several, such as a region: `file:line` of the first of them, where known.
    """

    trace: str
    op: int | None = None
    text: str = ""
    source: str | None = None
    begins: str | None = None

    @property
    def place(self) -> str:
        """The trace and the op's place in it: `computation:14`."""
        return self.trace if self.op is None else f"{self.trace}:{self.op}"

    def render(self) -> str:
        """One line: `computation:14  t5 = CUDAGraph0(x, w)  [model.py:3]`."""
        return "  ".join(part for part in (self.place, self.text, self.users_line) if part)

    @property
    def users_line(self) -> str:
        """`[model.py:3]`, or `[from model.py:3 on]` for several ops; empty where nobody knows.

        A path below the working directory is told from there.
        """
        if self.source is not None:
            return f"[{shorten(self.source)}]"
        return f"[from {shorten(self.begins)} on]" if self.begins is not None else ""


@dataclass(frozen=True, slots=True)
class Note:
    """One piece of evidence."""

    message: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding.

    Attributes:
        code: the rule's code, such as `CG401`.
        name: the rule's name, such as `lost-input-write`.
        severity: error, warning or note.
        message: what is wrong, without advice, one line.
        location: the guilty op.
        notes: the evidence.
        help: what to change; empty where there is nothing to say.
        why: what comes of it; empty where the message says so itself.
    """

    code: str
    name: str
    severity: Severity
    message: str
    location: Location
    notes: tuple[Note, ...] = ()
    help: str = ""
    why: str = ""

    def render(self) -> str:
        """Several lines of text, in the shape described in this module's first paragraph."""
        lines = wrap(f"{self.severity.value}[{self.code}]: ", self.message)
        lines += lay_out("  at ", self.location.place, self.location.text, self.location.users_line)
        lines += wrap("  why: ", self.why)
        for note in self.notes:
            lines += wrap("  note: ", note.message)
            if note.location is not None:
                at = note.location
                lines += lay_out("    at ", at.place, at.text, at.users_line)
        return "\n".join([*lines, *wrap("  help: ", self.help)])

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain JSON data."""
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity.value,
            "message": self.message,
            "location": _location_dict(self.location),
            "why": self.why,
            "notes": [{"message": n.message, "location": _location_dict(n.location)} for n in self.notes],
            "help": self.help,
        }

    def as_annotation(self) -> str:
        """A GitHub workflow command, on the user's source line: the finding's, else the first that a note has."""
        level = {"error": "error", "warning": "warning", "note": "notice"}[self.severity.value]
        properties = [f"title={self.code} {self.name}"]
        places = (self.location, *(note.location for note in self.notes if note.location is not None))
        lines = (*(place.source for place in places), self.location.begins)
        source = next((line for line in lines if line and ":" in line), None)
        if source is not None:
            path, _, line = source.rpartition(":")
            properties += [f"file={_escape_property(path)}", f"line={line}"]
        told = [("why", self.why), *(("note", note.message) for note in self.notes), ("help", self.help)]
        body = "\n".join([self.message, *(f"{what}: {text}" for what, text in told if text)])
        return f"::{level} {','.join(properties)}::{_escape_data(body)}"


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one check found.

    Attributes:
        subject: what was checked, such as `computation`.
        diagnostics: the findings; of one rewrite, errors first, and then in the order of the rules' codes.
    """

    subject: str
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no diagnostic is an error."""
        return not any(d.severity is Severity.ERROR for d in self.diagnostics)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes found, without repeats, in order."""
        return tuple(dict.fromkeys(d.code for d in self.diagnostics))

    def render(self, format: Format = "text") -> str:
        """The report as text, as one JSON object, or as GitHub annotations.

        Raises:
            ValueError: `format` is none of the three.
        """
        if format == "text":
            told = [d.render() for d in self._without_repeats()]
            return "\n".join([*told, *explain_words(self.diagnostics), self.summary()])
        if format == "json":
            found = {"subject": self.subject, "ok": self.ok, "diagnostics": [d.as_dict() for d in self.diagnostics]}
            return json.dumps(found, indent=2)
        if format == "github":
            return "\n".join(d.as_annotation() for d in self.diagnostics)
        raise ValueError(f"unknown report format {format!r}: choose one of {', '.join(FORMATS)}")

    def _without_repeats(self) -> Iterator[Diagnostic]:
        """The findings; only the first of each code says what comes of it."""
        told: set[str] = set()
        for found in self.diagnostics:
            yield replace(found, why="") if found.code in told else found
            told.add(found.code)

    def summary(self) -> str:
        """One line: proved, or how many findings of each severity."""
        if not self.diagnostics:
            return f"{self.subject}: proved"
        counts = {level: sum(d.severity is level for d in self.diagnostics) for level in Severity}
        words = ", ".join(count(n, level.value) for level, n in counts.items() if n)
        return f"{self.subject}: {'proved' if self.ok else 'not proved'} ({words})"


class UngraphedWarning(RuntimeWarning):
    """A region that was chosen for a graph runs un-graphed from now on; the message says for which calls, and why."""


class VerificationError(Exception):
    """A rewrite could not be proved; the report says why.

    Attributes:
        report: the findings.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(report.render())
        self.report = report


def _prose(diagnostics: Iterable[Diagnostic]) -> Iterator[str]:
    for found in diagnostics:
        yield from (found.message, found.why, *(note.message for note in found.notes), found.help)


def explain_words(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """What places and words of the findings mean, in a paragraph: its lines."""
    places = (d.location for d in diagnostics if d.location.op is not None)
    told = [f"{at.place} is op {at.op}, counted from 0, of the trace `{at.trace}`" for at in (*places,)[:1]]
    text = " ".join(_prose(diagnostics))
    told += [meaning for word, meaning in WORDS.items() if re.search(rf"\b{word}", text)]
    return wrap("words: ", "; ".join(told))


def count(number: int, what: str) -> str:
    """`1 value`, `2 values`, `no values`."""
    return counted(number, what) if number else f"no {what}s"


def _location_dict(location: Location | None) -> dict[str, Any] | None:
    if location is None:
        return None
    return {name: getattr(location, name) for name in ("trace", "op", "text", "source", "begins")}


def _escape_data(text: str) -> str:
    # https://docs.github.com/actions/reference/workflow-commands-for-github-actions: %, CR and LF are escaped in data
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
