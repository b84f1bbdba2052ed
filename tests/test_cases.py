"""Every case of `tests/cases`: the verifier says exactly what the case expects, and each original verifies clean."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from cgverify.diagnostics import Report, Severity
from cgverify.verifier import verify
from tests import cases
from tests.cases.build import CASES, Case

for _module in pkgutil.iter_modules(cases.__path__):
    importlib.import_module(f"{cases.__name__}.{_module.name}")


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
    """The trace before is proved against itself without a single diagnostic, unless it hides a global itself."""
    before, _ = case.make()
    found = [code for code in verify(before, before).codes if code != "CG109"]
    assert found == []
