"""The emulation answers as an H200 did about every operation of the fuzzer and about random programs."""

from __future__ import annotations

from pathlib import Path

from cgverify import cli, fidelity
from cgverify.fidelity import Answer, Recording, compare, half_of, load_recording
from cgverify.fuzzing.asking import ask_legality, legality_programs
from cgverify.fuzzing.operations import OPERATIONS
from cgverify.fuzzing.program import decode_program
from cgverify.loading import CheckError

import msgspec
import pytest
import torch

FILE = Path(__file__).parents[2] / "golden" / "fidelity_h200_torch2.11.jsonl.gz"
TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
PROGRAMS = 20
"""Random programs whose verdicts are asked again here; `cgverify fidelity` asks about all."""


@pytest.fixture(scope="module")
def recording() -> Recording:
    return load_recording(FILE)


def test_captures_allow_what_they_allow_on_a_gpu(recording: Recording) -> None:
    """About every recorded operation, fitted or not, the emulation says of a capture what the GPU said."""
    asked = [answer for answer in recording.answers if answer.operation]
    assert {half_of(answer.operation) for answer in asked} == {"fitted", "judged"}
    assert len({answer.operation for answer in asked}) >= 150
    assert sum(answer.answers["legality"] == "forbidden" for answer in asked) >= 20
    agreement = compare(Recording(recording.head, tuple(asked)))
    assert agreement.differences == ()


@pytest.mark.skipif(TORCH < (2, 13), reason="before torch 2.13 the CPU lacks kernels for float16 that the programs use")
def test_verdicts_and_bits_are_a_gpus(recording: Recording) -> None:
    """Random programs get the GPU's verdicts with a faulty transform and with ours, and, where exact, its bits."""
    random = [answer for answer in recording.answers if not answer.operation]
    asked = [*random[-PROGRAMS:], *(answer for answer in random if "bits" in answer.answers)][: PROGRAMS + 5]
    agreement = compare(Recording(recording.head, tuple(asked)))
    assert agreement.differences == ()
    assert agreement.asked["verdict thunder"] >= PROGRAMS
    assert agreement.asked["bits"]


def test_every_operation_is_asked_about() -> None:
    """There are programs of one step for every operation of the vocabulary, always the same ones."""
    drawn = list(legality_programs(1))
    assert [operation for operation, _ in drawn] == list(OPERATIONS)
    assert drawn == list(legality_programs(1))


def test_legality_is_told_in_three_ways() -> None:
    """A capture allows a product and forbids reading a number."""
    answers = {operation: ask_legality(program, "emulated") for operation, program in legality_programs(1)}
    assert (answers["add"], answers["item"]) == ("ok", "forbidden")


def test_a_difference_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], recording: Recording) -> None:
    """``cgverify fidelity FILE`` exits 1 and shows an answer that is not the recorded one, 0 if all are equal."""
    known = next(answer for answer in recording.answers if answer.operation == "add")
    for answer, code in (("ok", 0), ("forbidden", 1)):
        file = tmp_path / f"{answer}.jsonl"
        lines = (recording.head, msgspec.structs.replace(known, answers={"legality": answer}))
        file.write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
        assert cli.main(["fidelity", str(file)]) == code
    out = capsys.readouterr().out
    assert f"legality, {half_of('add')} half: 0 of 1 equal" in out
    assert "legality of add: GPU forbidden, emulation ok" in out


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot read"), (b"", "is no recording"), (b"{}", "is no rec")]
)
def test_a_file_that_is_no_recording_is_one_line(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is missing, empty, or something else is named in one line."""
    file = tmp_path / "recording.jsonl"
    if content is not None:
        file.write_bytes(content)
    assert cli.main(["fidelity", str(file)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_recording_goes_on_where_a_process_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no answer is asked once; a program whose process died of it is kept as such and not asked again."""
    programs = [(name, program) for name, program in legality_programs(1)][:3]
    asked: list[str] = []

    def ask(program: object, operation: str, device: str) -> dict[str, str]:
        asked.append(operation)
        if operation == programs[1][0] and asked.count(operation) == 1:
            raise KeyboardInterrupt  # stands for the end of the process
        return {"legality": "ok"}

    monkeypatch.setattr(fidelity, "ask", ask)
    monkeypatch.setattr(fidelity, "find_damage", lambda: "")
    monkeypatch.setattr(fidelity, "_questions", lambda *arguments: iter(programs))
    file = tmp_path / "recording.jsonl"
    file.write_bytes(msgspec.json.encode(fidelity.Head("a GPU", "2.11", "0", "2026-01-01")) + b"\n")
    with pytest.raises(KeyboardInterrupt):
        fidelity._answer_rest(file, 0, 0)
    assert fidelity._answer_rest(file, 0, 0) == 0
    fidelity._tidy(file)
    found = [answer.answers["legality"] for answer in load_recording(file).answers]
    assert found == ["ok", fidelity.CRASHED, "ok"]
    assert asked == [name for name, _ in programs]


def test_no_gpu_to_record(tmp_path: Path) -> None:
    """Recording needs a GPU, and says so."""
    with pytest.raises(CheckError, match="no CUDA device"):
        fidelity.record(tmp_path / "recording.jsonl", 1)


def test_programs_of_a_recording_are_programs(recording: Recording) -> None:
    """Every recorded program can still be read."""
    for answer in recording.answers:
        decode_program(answer.text)
    assert isinstance(recording.answers[0], Answer)
