"""The table of fault kinds is whole, names tests that exist, and is the page of the documentation."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.faults.table import FAULTS, GROUPS, Fault, render

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "faults.md"

NUMBERS = {"A": 20, "B": 14, "C": 11, "R": 6, "D": 6, "E": 8, "F": 10, "G": 12, "H": 8, "I": 3, "J": 2}


def functions(file: str) -> set[str]:
    """Names of the test functions of a file."""
    tree = ast.parse((HERE / f"{file}.py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_kind_is_decided_once() -> None:
    """Each group has all its numbers, in order, each once."""
    expected = [f"{group}{number:02}" for group, count in NUMBERS.items() for number in range(1, count + 1)]
    assert [fault.id for fault in FAULTS] == expected
    assert list(GROUPS) == list(NUMBERS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_decision_has_a_reason_and_a_test(fault: Fault) -> None:
    """Each row has a sentence; each that claims something names an existing test that carries its id."""
    assert fault.kind and fault.why.endswith(".") and "|" not in fault.kind + fault.why
    if fault.decision != "out-of-scope" or fault.test:
        file, _, name = fault.test.partition("::")
        function, _, parameters = name.partition("[")
        assert function in functions(file)
        assert f"_{fault.id}_" in function or fault.id in parameters
    else:
        assert not fault.test


def test_the_page_is_the_table() -> None:
    """`docs/faults.md` is what the table renders; write it with `python -m tests.faults.table`."""
    assert PAGE.read_text() == render()
