"""Program files: what is written is read back, and what cannot be read is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cgverify.fuzzing.program import Program, ProgramError, decode_program, encode_program, load_program
from cgverify.fuzzing.strategies import programs
from tests.fuzzing.programs_by_name import PROGRAMS

import pytest
from hypothesis import given, settings


@given(program=programs(gradients=True))
@settings(max_examples=100, deadline=None, database=None)
def test_round_trip(program: Program) -> None:
    """Encoding and decoding gives the same program, history included."""
    assert decode_program(encode_program(program)) == program


@given(program=programs(gradients=True))
@settings(max_examples=50, deadline=None, database=None)
def test_repr_is_python(program: Program) -> None:
    """A program's repr is the expression that makes it."""
    from cgverify.fuzzing import program as module

    assert eval(repr(program), vars(module)) == program


def test_the_documented_file_is_read() -> None:
    """The example of the design, with every key spelled out, is a program."""
    text = """{"format": "cgverify-program", "version": 1, "inputs": [{"shape": [2, 3], "dtype": "f32",
        "layout": "contiguous", "device": "cuda", "role": "arg", "alias_of": null, "requires_grad": false, "seed": 1}],
        "steps": [{"op": "mul", "args": [0, 1], "params": {}}], "outputs": [2],
        "history": [{"do": "call", "seeds": [1, 2]}], "why": "an example"}"""
    program = decode_program(text)
    assert program.inputs[0].shape == (2, 3)
    assert program.steps[0].op == "mul"
    assert program.history[0].seeds == (1, 2)


def test_a_file_of_version_1_is_read() -> None:
    """In version 1 an alias had its base's layout whatever its own said; the next version reads one as shifted."""
    text = """{"format": "cgverify-program", "version": 1, "steps": [], "outputs": [0],
        "inputs": [{"shape": [2], "layout": "offset"}, {"shape": [2], "layout": "offset", "alias_of": 0}]}"""
    old = decode_program(text)
    assert [entry.layout for entry in old.inputs] == ["offset", "contiguous"]
    assert '"version": 2' in encode_program(old)
    new = decode_program(text.replace('"version": 1', '"version": 2'))
    assert [entry.layout for entry in new.inputs] == ["offset", "offset"]


def _edited(old: str, new: str) -> str:
    text = encode_program(PROGRAMS["double"])
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        ("[]", "is not a program file"),
        ('{"format": "something"}', "is not a program file"),
        (_edited('"version": 2', '"version": 3'), "version 3"),
        (_edited('"version": 2', '"version": 0'), "version 0"),
        (_edited('"version": 2', '"version": true'), "version True"),
        (_edited('"version": 2', '"version": "1"'), "version '1'"),
        (_edited('"op": "add"', '"op": "adx"'), "'adx'"),
        (_edited('"shape"', '"shapes"'), "shapes"),
        (_edited('"why"', '"reason"'), "reason"),
        (_edited('"do": "call"', '"do": "dance"'), "dance"),
        (_edited('"op": "add"', '"op": "add", "params": {"alpha": 2}'), "'alpha'"),
    ],
)
def test_bad_file(text: str | bytes, named: str) -> None:
    """A file that cannot be read is refused with one line that names the file and the fault."""
    with pytest.raises(ProgramError) as caught:
        decode_program(text, "some.json")
    assert "some.json" in str(caught.value)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_parameter_value() -> None:
    """A parameter out of its choices is refused with the choices."""
    text = _edited('"op": "add"', '"op": "to_dtype", "params": {"dtype": "f31"}')
    with pytest.raises(ProgramError, match=r"dtype='f31'; it must be one of 'f64'"):
        decode_program(text)


@pytest.mark.parametrize(
    ("alias", "fits"),
    [
        ({"shape": [6], "dtype": "i64"}, True),
        ({"shape": [2, 3], "dtype": "i64", "layout": "offset"}, True),
        ({"shape": [6], "dtype": "i64", "layout": "offset"}, False),
        ({"shape": [2, 3]}, False),
        ({"shape": [5], "dtype": "i64"}, False),
        ({"shape": [2, 3], "dtype": "i64", "device": "cpu"}, False),
    ],
)
def test_alias_is_of_its_bases_kind(alias: dict[str, Any], fits: bool) -> None:
    """An alias that says another kind than its base is refused: its operations would be chosen for what it is not."""
    inputs = [{"shape": [2, 3], "dtype": "i64"}, {**alias, "alias_of": 0}]
    text = json.dumps({"format": "cgverify-program", "version": 2, "inputs": inputs, "steps": [], "outputs": []})
    if fits:
        assert decode_program(text).inputs[1].alias_of == 0
        return
    with pytest.raises(ProgramError, match=r"input 1 aliases input 0, which is of another kind; give it the same"):
        decode_program(text)


def test_alias_must_be_earlier() -> None:
    """An input cannot alias itself or a later one."""
    text = _edited('"values": "integers"', '"values": "integers", "alias_of": 0')
    with pytest.raises(ProgramError, match="input 0 aliases input 0"):
        decode_program(text)


def test_load_names_the_path(tmp_path: Path) -> None:
    """An error in a file names its path."""
    path = tmp_path / "broken.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ProgramError, match=r"broken\.json is not JSON"):
        load_program(path)


def test_deep_nesting_is_no_program() -> None:
    """A file of many brackets is refused like any other that holds no program."""
    with pytest.raises(ProgramError, match=r"deep\.json is not JSON"):
        decode_program("[" * 100_000, "deep.json")
