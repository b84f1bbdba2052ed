"""The picture of a rewrite: what it says, and the page and the text that say it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

from cgverify import cli
from cgverify.diagnostics import Diagnostic, Location, Report, Severity
from cgverify.report.drawing import draw_sheet, render_partition
from cgverify.report.lifetimes import Lifetime, compute_lifetimes
from cgverify.report.partition import Shown, show_function
from cgverify.report.picture import Line, Picture
from cgverify.report.segments import find_segments
from cgverify.report.terminal import print_partition
from tests.unit.report.html import Page, find_page_faults

import pytest
from rich.console import Console

FILES = Path(__file__).parents[1] / "cli_files"
DIVIDED = f"{FILES / 'pictured.py'}:divided"
STEP = f"{FILES / 'model.py'}:step"

HOSTILE = """</script><img src="x" onerror=alert(1)>'"&<!--"""


@pytest.fixture(scope="module")
def divided() -> Shown:
    return show_function(DIVIDED, device="emulated")


@pytest.fixture(scope="module")
def trained() -> Shown:
    return show_function(STEP, device="emulated")


def lines_of(picture: Picture) -> dict[str, Line]:
    return {line.key: line for line in (*picture.before, *picture.after)}


def life_of(shown: Shown, name: str) -> Lifetime:
    return next(life for life in shown.sheets[0].lifetimes if life.name == name)


def test_every_op_has_its_partner(divided: Shown) -> None:
    """Each op of the one trace has one partner in the other, and is its partner's partner."""
    picture = divided.sheets[0].picture
    lines = lines_of(picture)
    ops = [line for line in lines.values() if line.kind == "op"]
    assert len(ops) == 2 * picture.ops == 14
    for line in ops:
        (partner,) = line.partners
        assert lines[partner].partners == (line.key,)
        assert lines[partner].defines == line.defines


def test_regions_hold_their_ops(divided: Shown) -> None:
    """A region is followed by its ops, and is the partner of all of theirs."""
    picture = divided.sheets[0].picture
    assert [(box.name, box.ops) for box in picture.regions] == [("CUDAGraph0", 3), ("CUDAGraph1", 2)]
    for box in picture.regions:
        held = [line for line in picture.after if line.region == box.number]
        assert [line.kind for line in held] == ["region"] + ["op"] * box.ops
        assert held[0].partners == tuple(key for line in held[1:] for key in line.partners)


def test_what_stands_between_says_why(divided: Shown) -> None:
    """Between the regions stands the op that waits, or that works on the number, with the transform's reason."""
    segments = list(find_segments(divided.sheets[0].picture))
    assert [segment.region for segment in segments] == [0, None, 1] or [s.region for s in segments] == [
        0,
        None,
        1,
        None,
    ]
    between = segments[1]
    assert [line.reason.split(" ")[0] for line in between.lines] == ["waits"] + ["works"] * (len(between.lines) - 1)
    assert "item" in between.names


def test_lifetimes_say_who_owns_what(divided: Shown) -> None:
    """Arguments and results are the caller's; what only a region needs is its graph's, to the last use."""
    picture = divided.sheets[0].picture
    assert life_of(divided, "x").owner == life_of(divided, "y").owner == "caller"
    returned = next(line for line in picture.after if line.kind == "return").reads
    results = [name for name in returned if name not in ("x", "y")]
    assert [life_of(divided, name).owner for name in results] == ["caller"] * len(results)
    product = next(line for line in picture.after if line.kind == "op" and "mul" in line.text).defines[0]
    life = life_of(divided, product)
    assert (life.owner, life.freed) == ("graph", life.last)
    assert picture.after[life.last].reads == (product,)


def test_lifetimes_lie_within_the_trace(trained: Shown) -> None:
    """Each value is defined before its last use, and that is before its end."""
    for sheet in trained.sheets:
        for life in compute_lifetimes(sheet.picture):
            assert 0 <= life.born <= life.last < len(sheet.picture.after)
            assert life.freed < len(sheet.picture.after)
            assert life.name in sheet.picture.after[life.born].defines


def test_unplanned_regions_are_judged_by_their_contract() -> None:
    """Thunder's own transform hands results out in graph memory, and says neither roles nor reasons."""
    shown = show_function(DIVIDED, target="thunder", device="emulated")
    assert not shown.ok
    picture = shown.sheets[0].picture
    assert {passed.role for box in picture.regions for passed in box.outputs} == {"static buffer"}
    assert {line.reason for line in picture.after} == {""}
    assert "not proved under thunder on emulated" in Page(render_partition(shown)).text


PAGES = [(DIVIDED, "cgverify"), (STEP, "cgverify"), (DIVIDED, "thunder"), (STEP, "none")]


def test_findings_stand_at_their_lines() -> None:
    """What the verifier says stands at the op that it says it of, inside regions too, and once for each code."""
    shown = show_function(DIVIDED, target="thunder", device="emulated")
    drawing = draw_sheet(shown.sheets[0], "s0", shown.reports)
    marked = {"".join(token for token, _ in line.tokens): line.marks for line in drawing.after if line.marks}
    codes = {text.partition(" = ")[2].partition("(")[0]: [mark[0] for mark in marks] for text, marks in marked.items()}
    assert codes == {"CUDAGraph1": ["CG302", "CG104"], "Tensor.item": ["CG201"]}
    assert all(line.types for line in drawing.after if line.kind == "op")


@pytest.mark.parametrize(("location", "target"), PAGES, ids=lambda value: value.rpartition(":")[2])
def test_page_is_one_sound_file(location: str, target: str) -> None:
    """A page parses, has unique ids that all links find, and loads nothing."""
    assert find_page_faults(Page(render_partition(show_function(location, target=target, device="emulated")))) == []


def test_page_shows_everything(trained: Shown) -> None:
    """Every line of every trace, forward and backward, has an element, and every source line is there."""
    page = Page(render_partition(trained))
    assert [sheet.title for sheet in trained.sheets] == ["forward", "backward"]
    for index, sheet in enumerate(trained.sheets):
        keys = {f"s{index}-{line.key}" for line in (*sheet.picture.before, *sheet.picture.after)}
        assert keys <= set(page.ids)
    assert "return torch.relu(x - w) * w" in page.text
    assert all(report.summary() in page.text for report in trained.reports)


def hostile(shown: Shown) -> Shown:
    """The same with a name in it that would break out of a page that did not escape it."""
    sheet = shown.sheets[0]
    line = replace(sheet.picture.after[3], text=HOSTILE, source=HOSTILE, reason=HOSTILE, defines=(HOSTILE,))
    picture = replace(sheet.picture, name=HOSTILE, after=(*sheet.picture.after[:3], line, *sheet.picture.after[4:]))
    found = Diagnostic("CG101", HOSTILE, Severity.ERROR, HOSTILE, Location(HOSTILE, 1, HOSTILE), help=HOSTILE)
    changed = replace(sheet, title=HOSTILE, picture=picture, lifetimes=compute_lifetimes(picture))
    return replace(shown, location=HOSTILE, sheets=(changed,), reports=(Report(HOSTILE, (found,)),))


def test_hostile_names_stay_text(divided: Shown) -> None:
    """Whatever a name is, the page has the elements it would have, and the name is text."""
    plain, attacked = Page(render_partition(divided)), Page(render_partition(hostile(divided)))
    assert "img" not in attacked.tags
    assert attacked.tags.count("script") == plain.tags.count("script") == 1
    assert attacked.urls == plain.urls
    assert HOSTILE in " ".join(attacked.texts)


def test_large_page_stays_small(divided: Shown) -> None:
    """The page of a trace of 500 ops is smaller than 2 MB."""
    sheet = divided.sheets[0]
    op = next(line for line in sheet.picture.after if line.kind == "op")
    many = tuple(replace(op, key=f"a{k}", text=op.text * 2, defines=(f"t{k}",)) for k in range(500))
    before = tuple(replace(line, key=f"b{line.number}") for line in many)
    picture = replace(sheet.picture, before=before, after=(sheet.picture.after[3], *many))
    large = replace(sheet, picture=picture, lifetimes=compute_lifetimes(picture))
    page = render_partition(replace(divided, sheets=(large, large)))
    assert 500_000 < len(page.encode()) < 2 * 2_000_000


def test_terminal_shows_traces_reasons_and_lives(divided: Shown) -> None:
    """As text, each line of the trace after, each reason and each value has a line of its own."""
    stream = io.StringIO()
    print_partition(divided, Console(file=stream, width=140))
    text = stream.getvalue()
    lines = text.splitlines()
    assert lines[1] == "computation: 2 regions, 5 of 7 ops in graphs"
    assert [line.split()[0] for line in lines if "┌ G" in line or "│ G" in line] == [
        *("2", "2.0", "2.2", "2.4"),
        *("7", "7.0", "7.2"),
    ]
    assert any("un-graphed: waits for the device to hand a value to the host" in line for line in lines)
    assert "\x1b" not in text
    assert "computation: proved" in lines


@pytest.mark.parametrize(("target", "code", "word"), [("cgverify", 0, "proved"), ("thunder", 1, "not proved")])
def test_show_writes_a_page(
    target: str, code: int, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``show --html`` writes the page, says where, and exits by the verdict."""
    file = tmp_path / "page.html"
    assert cli.main(["show", DIVIDED, "--device", "emulated", "--target", target, "--html", str(file)]) == code
    assert capsys.readouterr().out == f"{DIVIDED} under {target} on emulated: {word}; drawn in {file}\n"
    assert Page(file.read_text(encoding="utf-8")).tags[0] == "html"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "nowhere.py:f"], "cannot read nowhere.py: no such file; give FILE.py:FUNC"),
        (["show", DIVIDED, "--device", "emulated", "--html", "{}/none/page.html"], "cannot write "),
    ],
)
def test_show_that_cannot_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A function or a file that is not to be had exits 2 with one line."""
    assert cli.main([argument.format(tmp_path) for argument in arguments]) == 2
    written = capsys.readouterr()
    assert written.err.startswith(f"error: {message}")
    assert written.err.count("\n") == 1
