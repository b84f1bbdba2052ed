"""Contracts: every field is documented, and changes the verdict on some trace."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import cgverify
from cgverify.verifier.contracts import CGVERIFY, PURE_REWRITE, Contract
from tests import test_cases  # noqa: F401  (loads every case)
from tests.cases.build import CASES, bare, chain

PAGE = Path(cgverify.__file__).parents[1] / "docs" / "contracts.md"


def test_every_field_is_documented() -> None:
    """The page on contracts has a row for each field but the name."""
    text = PAGE.read_text()
    assert [f.name for f in dataclasses.fields(Contract) if f.name != "name" and f"| `{f.name}` |" not in text] == []


def test_every_rule_of_the_page_depends_on_a_contract() -> None:
    """Each code that the page names is expected by a case under a contract, or under Thunder's own by its regions."""
    text = PAGE.read_text()
    expected = {place[:5] for case in CASES for place in case.expected}
    codes = {word.strip(",|.:)(") for word in text.split() if word.strip(",|.:)(").startswith("CG")}
    assert codes - {"CG104"} <= expected | {"CG104"}


def test_a_contract_of_ones_own() -> None:
    """A region of any name is judged once a contract says that it is captured, and by what it says of the runtime."""
    before = chain()
    after = bare(before, 2, 4, "MyGraph7")
    assert cgverify.verify(before, after).ok
    mine = dataclasses.replace(PURE_REWRITE, name="mine", regions=r"MyGraph\d+")
    assert cgverify.verify(before, after, contract=mine).ok
    static = dataclasses.replace(mine, fresh_outputs=False)
    assert cgverify.verify(before, after, contract=static).codes == ("CG302", "CG104")


def test_our_own_promises_all() -> None:
    """Our own contract has every promise at its safe value."""
    assert dataclasses.replace(CGVERIFY, name="") == Contract(name="")
