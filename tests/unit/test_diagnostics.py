"""Reports as text: whole within 100 columns, each reason once, each word that not everybody knows explained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cgverify.columns import WIDTH
from cgverify.diagnostics import WORDS, Diagnostic, Location, Note, Report, Severity
from cgverify.verifier import registry

import pytest

COMMON = {"a", "an", "the", "its", "if", "other", "from", "work", "arguments", "nothing", "whoever"}

LONG = Location("computation", 7, f"[t9] = CUDAGraph0({', '.join(f'a{k}' for k in range(60))})  # t9", "model.py:3")


def finding(message: str = "it is wrong", why: str = "it matters", location: Location = LONG) -> Diagnostic:
    """One finding, with a note at the same place."""
    notes = (Note("evidence " * 30, location),)
    return Diagnostic("CG101", "undefined-proxy", Severity.ERROR, message, location, notes, "change it " * 30, why)


def test_text_fits() -> None:
    """Long messages are wrapped and long ops cut, so that no line is over 100 columns; the user's line is kept."""
    text = Report("computation", (finding("a very long message " * 20),)).render()
    assert max(map(len, text.splitlines())) <= WIDTH == 100
    assert text.count("[model.py:3]") == 2
    assert "…" in text


def test_short_place_is_one_line() -> None:
    """An op that fits stands beside its place and source; its comment is dropped before anything is cut."""
    place = Location("computation", 7, f"t1 = torch.add({'x' * 40}, y)  # t1: {'f32' * 9}", "model.py:3")
    assert f"  at computation:7  t1 = torch.add({'x' * 40}, y)  [model.py:3]" in finding(location=place).render()


def test_path_is_never_cut() -> None:
    """A path that is longer than a line has a line of its own."""
    path = f"/{'deep/' * 30}model.py:3"
    lines = finding(location=Location("computation", 1, "t1 = torch.add(x, y)", path)).render().splitlines()
    assert lines[1:3] == ["  at computation:1  t1 = torch.add(x, y)", f"     [{path}]"]


def test_path_is_told_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path below the working directory is shown from there, and data keep the whole."""
    monkeypatch.chdir(tmp_path)
    found = finding(location=Location("computation", 1, "t1 = torch.add(x, y)", f"{tmp_path}/a/model.py:3"))
    assert "t1 = torch.add(x, y)  [a/model.py:3]" in found.render()
    assert found.as_dict()["location"]["source"] == f"{tmp_path}/a/model.py:3"


def test_line_of_a_region() -> None:
    """A region says where it begins; an annotation stands on a line of the evidence if there is one, else there."""
    region = Location("computation", 7, "[t9] = CUDAGraph0(x)", begins="model.py:3")
    assert region.render() == "computation:7  [t9] = CUDAGraph0(x)  [from model.py:3 on]"
    found = finding(location=region)
    assert "file=model.py,line=3:" in found.as_annotation()
    write = Note("it is written here", Location("CUDAGraph0", 4, "t5 = copy_(t4, x)", "model.py:8"))
    assert "file=model.py,line=8:" in replace(found, notes=(write,)).as_annotation()


def test_json_is_not_cut() -> None:
    """The data keep the whole op, and what comes of the fault."""
    found = finding().as_dict()
    assert (found["location"]["text"], found["why"]) == (LONG.text, "it matters")


def test_reason_is_told_once() -> None:
    """Of several findings of one rule, the first says what comes of the fault."""
    assert Report("computation", (finding(), finding())).render().count("why: it matters") == 1


@pytest.mark.parametrize("word", WORDS)
def test_word_is_explained(word: str) -> None:
    """A report explains a word of `WORDS` if it uses it, and only then."""
    used = Report("computation", (finding(f"two {word}s are wrong"),)).render()
    assert WORDS[word].split()[-1] in used.partition("words: ")[2]
    unused = Report("computation", (finding(),)).render()
    assert "words: computation:7 is op 7, counted from 0, of the trace `computation`\n" in unused


@pytest.mark.parametrize("rule", registry.rules(), ids=lambda rule: rule.code)
def test_reason_is_a_sentence(rule: registry.Rule) -> None:
    """What comes of a fault is the first sentence of the rule's manual on it, short, and begins with a common word."""
    assert 20 < len(rule.why) < 200
    assert rule.why.split()[0] in COMMON
