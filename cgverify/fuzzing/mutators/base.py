"""What a mutator is, and the list of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cgverify.diagnostics import Report
from cgverify.verifier import verify
from cgverify.verifier.contracts import Contract

from thunder.core.trace import TraceCtx

Apply = Callable[[TraceCtx, TraceCtx], TraceCtx | None]


@dataclass(frozen=True)
class Mutator:
    """One way to break a rewrite.

    Attributes:
        name: what it does.
        code: the rule that must speak.
        apply: (before, after) to a corrupted after, or None where it does not apply.
        contract: what to judge under; None leaves the choice to the verifier.
    """

    name: str
    code: str
    apply: Apply
    contract: Contract | None = None

    def report(self, before: TraceCtx, after: TraceCtx) -> Report | None:
        """The verifier's report on the corrupted rewrite; None where the mutator does not apply."""
        corrupted = self.apply(before, after)
        return None if corrupted is None else verify(before, corrupted, contract=self.contract)

    def catches(self, before: TraceCtx, after: TraceCtx) -> bool | None:
        """Whether the verifier rejects the corrupted rewrite by this code; None where the mutator does not apply."""
        report = self.report(before, after)
        return None if report is None else not report.ok and self.code in report.codes


MUTATORS: list[Mutator] = []


def mutator(code: str, contract: Contract | None = None) -> Callable[[Apply], Apply]:
    """Registers the decorated function, named by its own name."""

    def register(apply: Apply) -> Apply:
        MUTATORS.append(Mutator(apply.__name__.replace("_", "-"), code, apply, contract))
        return apply

    return register
