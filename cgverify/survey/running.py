"""Surveys one entry of the corpus: every step from trace to trace, and what is open with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from cgverify.passes import PassCheck, verify_each
from cgverify.survey.corpus import Entry

# Entries on which a pass of Thunder's is wrong, with what it does wrong.
KNOWN_FAULTS = {
    "saved value overwritten": "the grad transform reads overwritten memory: wrong gradients, where eager raises",
    "unused random numbers": "dead code elimination drops random draws: later draws get other numbers than in eager",
}


@dataclass(frozen=True)
class Surveyed:
    """What was found on one entry.

    Attributes:
        name: the entry's.
        passes: every step from trace to trace.
        failure: why it could not be compiled, or empty.
    """

    name: str
    passes: tuple[PassCheck, ...]
    failure: str = ""

    @property
    def ok(self) -> bool:
        """Whether no pass is wrong."""
        return all(check.report.ok for check in self.passes)

    def render(self) -> str:
        """A line, and below it each pass that is not proved with its reason."""
        if self.failure:
            return f"{self.name}: not compiled: {self.failure}"
        proved = sum(check.proved for check in self.passes)
        lines = [f"{self.name}: {proved} of {len(self.passes)} steps proved"]
        for check in self.passes:
            if not check.proved:
                lines.append(f"  {check.trace}: {check.name}")
                lines += [f"    {line}" for found in check.report.diagnostics for line in found.render().splitlines()]
        return "\n".join(lines)


def survey(entry: Entry) -> Surveyed:
    """Compiles and calls the entry once under Thunder and checks every step."""
    function, arguments = entry.make()
    try:
        report = verify_each(function, *arguments, **entry.options)
    except Exception as error:  # whatever Thunder raises on what it does not support
        reason = str(error).split("\n", 1)[0]
        return Surveyed(entry.name, (), f"{type(error).__name__}: {reason}"[:160])
    return Surveyed(entry.name, report.passes)
