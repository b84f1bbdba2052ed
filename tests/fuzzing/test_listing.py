"""The list of failures of Thunder's own transform in the docs is made from the programs beside it, and they do fail."""

from __future__ import annotations

from pathlib import Path

from cgverify.fuzzing.listing import main, render_table
from cgverify.fuzzing.oracles import check
from cgverify.fuzzing.program import load_program
from cgverify.fuzzing.properties import choose_form
from cgverify.fuzzing.targets import find_target
from cgverify.reproducing import reproduce_program

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "thunder-failures.md"
KEPT = sorted(PAGE.with_suffix("").glob("*.json"))


def test_page_shows_the_table() -> None:
    """The page's table is what the program prints for the folder, with at least twelve failures."""
    assert len(KEPT) >= 12
    assert render_table(PAGE.with_suffix("")) in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_failure_shows(path: Path) -> None:
    """A listed program breaks the invariant that its name says, with Thunder's transform and not with ours."""
    found = reproduce_program(str(path), target="thunder", device="emulated", isolation="never")
    assert found.verdict.status == "fail"
    assert path.stem.startswith(found.verdict.invariant)
    program = load_program(path)
    right = find_target("cgverify")
    assert check(program, None, right, "emulated", form=choose_form(program), eager=False).status == "ok"


def test_wrong_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a folder there is nothing to list."""
    assert main([]) == 2
    assert capsys.readouterr().err == "error: give one folder of program files, such as .cgverify/failures\n"
