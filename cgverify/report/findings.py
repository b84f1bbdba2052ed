"""What the verifier found, by the rule and by the line that it is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cgverify.diagnostics import Diagnostic, Report
from cgverify.report.picture import Picture


@dataclass(frozen=True, slots=True)
class Findings:
    """What the verifier found under one code, with each remedy once."""

    code: str
    severity: str
    name: str
    found: tuple[Diagnostic, ...]
    helps: tuple[str, ...]


def group_findings(report: Report) -> Iterator[Findings]:
    """The findings of each code and severity, in the report's order."""
    found: dict[tuple[str, str], list[Diagnostic]] = {}
    for diagnostic in report.diagnostics:
        found.setdefault((diagnostic.code, diagnostic.severity.value), []).append(diagnostic)
    for (code, severity), group in found.items():
        helps = tuple(dict.fromkeys(one.help for one in group if one.help))
        yield Findings(code, severity, group[0].name, tuple(group), helps)


def find_by_line(picture: Picture, reports: Sequence[Report]) -> dict[str, tuple[Diagnostic, ...]]:
    """The findings at each line of a picture, by the line's key."""
    starts = {picture.name: "a", f"{picture.name} (before)": "b"}
    for line in picture.after:
        if line.kind == "region" and line.region is not None:
            starts[picture.regions[line.region].name] = f"{line.key}."
    found: dict[str, tuple[Diagnostic, ...]] = {}
    for report in reports:
        for diagnostic in report.diagnostics:
            place = diagnostic.location
            if place.trace in starts and report.subject == picture.name:
                key = f"{starts[place.trace]}{place.op}"
                found[key] = (*found.get(key, ()), diagnostic)
    return found
