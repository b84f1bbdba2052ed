"""The rules, by code: one decorated function each, whose docstring is the manual that `cgverify explain` prints.

A rule function takes the `Subject` and yields findings. Its docstring has five headings, in this order: What it checks,
Why it is wrong, Example, Instead, Not covered. Codes are never reused: a removed rule leaves its number empty.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from cgverify.diagnostics import Diagnostic, Location, Note, Severity

if TYPE_CHECKING:
    from cgverify.verifier.subject import Subject

HEADINGS = ("What it checks", "Why it is wrong", "Example", "Instead", "Not covered")
FAMILIES = {"1": "structure", "2": "capture", "3": "memory", "4": "ordering", "5": "equivalence"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule yields: a diagnostic without the rule's code and name.

    Attributes:
        severity: None means the rule's own.
    """

    message: str
    location: Location
    notes: tuple[Note, ...] = ()
    help: str = ""
    severity: Severity | None = None


Check = Callable[["Subject"], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        code: `CG` and three digits; the first is the family.
        name: names the fault, never the remedy.
        severity: of its findings, unless one says otherwise.
        check: the function.
    """

    code: str
    name: str
    severity: Severity
    check: Check

    @property
    def family(self) -> str:
        """`structure`, `capture`, `memory`, `ordering` or `equivalence`."""
        return FAMILIES[self.code[2]]

    @property
    def manual(self) -> str:
        """The docstring, cleaned."""
        return inspect.cleandoc(self.check.__doc__ or "")

    @property
    def why(self) -> str:
        """What comes of the fault: the first sentence under "Why it is wrong", as a message says it."""
        section = self.manual.split(f"{HEADINGS[1]}\n", 1)[-1].split("\n\n", 1)[0]
        sentence = " ".join(section.split()).split(". ", 1)[0].rstrip(".")
        return f"{sentence[:1].lower()}{sentence[1:]}"

    def diagnose(self, found: Finding) -> Diagnostic:
        """A finding as a diagnostic of this rule."""
        severity = found.severity or self.severity
        return Diagnostic(
            self.code, self.name, severity, found.message, found.location, found.notes, found.help, self.why
        )

    def run(self, subject: Subject) -> Iterable[Diagnostic]:
        """The rule's findings as diagnostics."""
        return map(self.diagnose, self.check(subject))


_RULES: dict[str, Rule] = {}


def rule(code: str, name: str, severity: Severity = Severity.ERROR) -> Callable[[Check], Check]:
    """Registers the decorated function under its code.

    Raises:
        ValueError: the code is taken.
    """

    def register(check: Check) -> Check:
        if code in _RULES:
            raise ValueError(f"rule code {code} is taken by {_RULES[code].name}: choose another for {name}")
        _RULES[code] = Rule(code, name, severity, check)
        return check

    return register


def rules() -> tuple[Rule, ...]:
    """All rules, by code."""
    return tuple(_RULES[code] for code in sorted(_RULES))


def find(code: str) -> Rule:
    """The rule of a code.

    Raises:
        KeyError: no such rule; the message lists the codes that are like it, or else all there are.
    """
    found = _RULES.get(code)
    if found is None:
        like = get_close_matches(code, _RULES, n=3, cutoff=0.7)
        one_of = " or ".join(like) if like else ", ".join(sorted(_RULES))
        raise KeyError(
            f"no rule {code!r}: {'did you mean ' if like else 'the codes are '}{one_of}{'?' if like else ''}"
        )
    return found


def explain(code: str) -> str:
    """The manual of a rule: a title line and its docstring.

    Args:
        code: the rule's code or name, in any case; a code may lack its letters.

    Raises:
        KeyError: no such rule; the message lists the codes that are like it, or else all there are.
    """
    found = find(_code_of(code.strip()))
    return f"{found.code} {found.name} ({found.family}, {found.severity.value})\n\n{found.manual}\n"


def _code_of(text: str) -> str:
    """The code that somebody means who writes `cg401`, `401` or `lost-input-write`."""
    by_name = {rule.name: code for code, rule in _RULES.items()}
    return by_name.get(text.lower()) or (f"CG{text}" if text.isdecimal() else text.upper())
