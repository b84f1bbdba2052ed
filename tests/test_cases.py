"""Every case of `tests/cases`: the verifier says exactly what the case expects, and each original verifies clean.

Snapshots hold the rendered reports of each rule's cases, where they name the rule; `CGVERIFY_UPDATE_SNAPSHOTS=1`
writes them anew.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from pathlib import Path

from cgverify.diagnostics import Report, Severity
from cgverify.verifier import registry, verify
from tests import cases
from tests.cases.build import CASES, Case

import pytest

for _module in pkgutil.iter_modules(cases.__path__):
    importlib.import_module(f"{cases.__name__}.{_module.name}")

SNAPSHOTS = Path(__file__).parent / "snapshots"


def places(report: Report) -> list[str]:
    """The errors of a report as expectations are written."""
    errors = [d for d in report.diagnostics if d.severity is Severity.ERROR]
    return sorted(
        f"{d.code} {d.location.trace}" if d.location.op is None else f"{d.code} {d.location.trace}:{d.location.op}"
        for d in errors
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case(case: Case) -> None:
    """The verifier reports the expected errors at the expected ops, and nothing else."""
    before, after = case.make()
    report = verify(before, after, contract=case.contract)
    assert places(report) == sorted(case.expected), report.render()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_original_proves_itself(case: Case) -> None:
    """The trace before is proved against itself without a word, unless it hides a global or spoils a saved value."""
    before, _ = case.make()
    found = [code for code in verify(before, before).codes if code not in ("CG109", "CG307")]
    assert found == []


def render(code: str) -> Iterator[str]:
    """What the verifier says of the cases of a rule's module, if it names the rule, each under the case's name."""
    for case in CASES:
        if case.name.startswith(code.lower()):
            before, after = case.make()
            report = verify(before, after, contract=case.contract)
            if code in report.codes:
                yield f"--- {case.make.__name__.replace('_', ' ')}\n{report.render()}\n"


@pytest.mark.parametrize("code", [rule.code for rule in registry.rules()])
def test_snapshot(code: str) -> None:
    """The rendered reports of a rule's cases are those on record, and no line of them is over 100 columns."""
    rendered = "\n".join(render(code))
    path = SNAPSHOTS / f"{code}.txt"
    if os.environ.get("CGVERIFY_UPDATE_SNAPSHOTS") == "1":
        path.write_text(rendered, encoding="utf-8")
    assert rendered == path.read_text(encoding="utf-8")
    assert max(map(len, rendered.splitlines())) <= 100
