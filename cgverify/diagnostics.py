"""Diagnostics and reports: what a check found, where, with what evidence, and how to say it.

Message shape: the first line says what is wrong in the trace's own names and stands alone; notes carry the evidence,
each with a location where there is one; help says what to change.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

Format = Literal["text", "json", "github"]
FORMATS: tuple[Format, ...] = ("text", "json", "github")


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
    """

    trace: str
    op: int | None = None
    text: str = ""
    source: str | None = None

    def render(self) -> str:
        """One line: `computation:14  t5 = CUDAGraph0(x, w)  [model.py:3]`."""
        where = self.trace if self.op is None else f"{self.trace}:{self.op}"
        parts = [where, self.text, f"[{self.source}]" if self.source else ""]
        return "  ".join(part for part in parts if part)


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
    """

    code: str
    name: str
    severity: Severity
    message: str
    location: Location
    notes: tuple[Note, ...] = ()
    help: str = ""

    def render(self) -> str:
        """Several lines of text, in the shape described in this module's first paragraph."""
        lines = [f"{self.severity.value}[{self.code}]: {self.message}", f"  at {self.location.render()}"]
        for note in self.notes:
            where = f"  [{note.location.render()}]" if note.location else ""
            lines.append(f"  note: {note.message}{where}")
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The finding as plain JSON data."""
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity.value,
            "message": self.message,
            "location": _location_dict(self.location),
            "notes": [{"message": n.message, "location": _location_dict(n.location)} for n in self.notes],
            "help": self.help,
        }

    def as_annotation(self) -> str:
        """A GitHub workflow command, on the user's source line: the finding's, else the first that a note has."""
        level = {"error": "error", "warning": "warning", "note": "notice"}[self.severity.value]
        properties = [f"title={self.code} {self.name}"]
        places = (self.location, *(note.location for note in self.notes if note.location is not None))
        source = next((place.source for place in places if place.source and ":" in place.source), None)
        if source is not None:
            path, _, line = source.rpartition(":")
            properties += [f"file={_escape_property(path)}", f"line={line}"]
        body = "\n".join(
            [self.message, *(f"note: {n.message}" for n in self.notes), *([f"help: {self.help}"] if self.help else [])]
        )
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
            return "\n".join([*(d.render() for d in self.diagnostics), self.summary()])
        if format == "json":
            found = {"subject": self.subject, "ok": self.ok, "diagnostics": [d.as_dict() for d in self.diagnostics]}
            return json.dumps(found, indent=2)
        if format == "github":
            return "\n".join(d.as_annotation() for d in self.diagnostics)
        raise ValueError(f"unknown report format {format!r}: choose one of {', '.join(FORMATS)}")

    def summary(self) -> str:
        """One line: proved, or how many findings of each severity."""
        if not self.diagnostics:
            return f"{self.subject}: proved"
        counts = {level: sum(d.severity is level for d in self.diagnostics) for level in Severity}
        words = ", ".join(f"{n} {level.value}{'s' if n > 1 else ''}" for level, n in counts.items() if n)
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


def _location_dict(location: Location | None) -> dict[str, Any] | None:
    if location is None:
        return None
    return {"trace": location.trace, "op": location.op, "text": location.text, "source": location.source}


def _escape_data(text: str) -> str:
    # https://docs.github.com/actions/reference/workflow-commands-for-github-actions: %, CR and LF are escaped in data
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
