"""Compares the emulation with a GPU: on programs, in what a capture allows, in verdicts, and in bits.

A recording holds what a GPU answered (`record`), one JSON object a line: a head that says which GPU, then a program
and the answers about it a line. `compare` puts the same questions to the emulation; that needs no GPU. Programs of one
operation ask whether a capture allows it. Their operations are split in two halves by a hash of the name: the tables of
`cgverify.emulation` may be fitted on the first, and how good they are is said by the second, the *judged* half.
"""

from __future__ import annotations

import gc
import gzip
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cgverify
from cgverify.fuzzing.asking import ask_bits, ask_legality, ask_verdict, legality_programs
from cgverify.fuzzing.devices import DeviceName, find_damage
from cgverify.fuzzing.program import Program, ProgramError, decode_program, encode_program
from cgverify.fuzzing.throughput import draw_programs
from cgverify.loading import CheckError

import msgspec
import torch

TARGETS = ("thunder", "cgverify")
"""Whose verdicts are compared: one that fails often and one that should not."""

CRASHED = "crashed"
"""The answer of a process that died of the question."""

_SPENT = 3  # exit status of a child in which no more can be asked


class Head(msgspec.Struct, frozen=True):
    """Where a recording comes from.

    Attributes:
        gpu: its name.
        torch: PyTorch's version.
        cgverify: cgverify's version.
        day: of the recording, ISO.
    """

    gpu: str
    torch: str
    cgverify: str
    day: str


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a device answered about one program.

    Attributes:
        program: as in a program file.
        answers: by question: `legality`, `verdict thunder`, `bits`, ...
        operation: for a program of one operation, its name.
    """

    program: dict[str, Any]
    answers: dict[str, str]
    operation: str = ""

    @property
    def text(self) -> str:
        """The program on one line."""
        return msgspec.json.encode(self.program).decode()


@dataclass(frozen=True, slots=True)
class Recording:
    """A file of answers."""

    head: Head
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One question to which the two devices give different answers."""

    question: str
    operation: str
    gpu: str
    emulation: str
    program: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often the emulation answered as the GPU did.

    Attributes:
        asked: by row (`legality, fitted half`, `verdict thunder`, ...), how many questions.
        equal: by row, to how many of them both gave the same answer.
        differences: the others.
    """

    asked: dict[str, int]
    equal: dict[str, int]
    differences: tuple[Difference, ...]

    def render(self) -> str:
        """Text: a line for each row, then each difference with its program."""
        lines = [f"{row}: {self.equal[row]} of {count} equal" for row, count in self.asked.items()]
        for one in self.differences:
            about = f" of {one.operation}" if one.operation else ""
            lines.append(f"{one.question}{about}: GPU {one.gpu}, emulation {one.emulation}: {one.program}")
        return "\n".join(lines)


def half_of(operation: str) -> str:
    """Return `fitted` or `judged`: the half of the vocabulary in which an operation falls."""
    return ("fitted", "judged")[hashlib.sha256(operation.encode()).digest()[0] % 2]


def ask(program: Program, operation: str, device: DeviceName) -> dict[str, str]:
    """Put every question about a program to a device."""
    if operation:
        return {"legality": ask_legality(program, device)}
    found = {f"verdict {target}": ask_verdict(program, target, device) for target in TARGETS}
    bits = ask_bits(program, device)
    return found | ({"bits": bits} if bits else {})


def load_recording(path: Path) -> Recording:
    """Read a recording, as it was written or compressed (`.gz`).

    Raises:
        CheckError: the file cannot be read, or holds something else.
    """
    try:
        content = path.read_bytes()
        head, *lines = (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
        answers = tuple(msgspec.json.decode(line, type=Answer) for line in lines)
        return Recording(msgspec.json.decode(head, type=Head), answers)
    except OSError as error:
        raise CheckError(f"cannot read {path}: {error.strerror}; give a recording by cgverify fidelity") from error
    except (msgspec.MsgspecError, ValueError, EOFError, RecursionError) as error:
        raise CheckError(f"{path} is no recording: {error}; make one with cgverify fidelity --record") from error


def compare(recording: Recording, device: DeviceName = "emulated") -> Agreement:
    """Put the questions of a recording to the emulation."""
    asked: Counter[str] = Counter()
    equal: Counter[str] = Counter()
    differences: list[Difference] = []
    for known in recording.answers:
        try:
            found = ask(decode_program(known.text), known.operation, device)
        except ProgramError as error:
            found = dict.fromkeys(known.answers, f"cannot be asked any more: {error}")
        for question, answer in known.answers.items():
            row = f"{question}, {half_of(known.operation)} half" if known.operation else question
            asked[row] += 1
            equal[row] += found.get(question) == answer
            if found.get(question) != answer:
                differences.append(
                    Difference(question, known.operation, answer, found.get(question, "nothing"), known.text)
                )
    return Agreement(dict(asked), dict(equal), tuple(differences))


def record(path: Path, programs: int, seed: int = 0) -> None:
    """Ask this machine's GPU about every operation and about `programs` random programs, and write the answers.

    Processes of their own ask, one after the other, because a question can end or spoil the one that asks it.

    Raises:
        CheckError: there is no GPU, or the file cannot be written.
    """
    if not torch.cuda.is_available():
        raise CheckError("no CUDA device: torch.cuda.is_available() says no; record where there is one")
    day = time.strftime("%Y-%m-%d")
    head = Head(torch.cuda.get_device_name(), str(torch.__version__), cgverify.__version__, day)
    try:
        path.write_bytes(msgspec.json.encode(head) + b"\n")
    except OSError as error:
        raise CheckError(f"cannot write {path}: {error.strerror}; give a path that can be written") from error
    command = [sys.executable, "-m", "cgverify.fidelity", str(path), str(programs), str(seed)]
    size = -1
    while subprocess.run(command, check=False).returncode:
        if path.stat().st_size == size:
            raise CheckError(f"{' '.join(command)} ends without an answer; run it by itself to see why")
        size = path.stat().st_size
    _tidy(path)


def compare_here(programs: int, seed: int = 0) -> Agreement:
    """Ask this machine's GPU, and then the emulation in a process that does not see the GPU.

    Raises:
        CheckError: there is no GPU, or the other process fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording.jsonl"
        record(path, programs, seed)
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "cgverify.fidelity", str(path)]
        done = subprocess.run(command, check=False, env=hidden, capture_output=True)
        if done.returncode:
            last = done.stderr.decode(errors="replace").splitlines()[-1:]
            raise CheckError(f"the emulation could not be asked: {' '.join(last)}; run cgverify doctor")
        return msgspec.json.decode(done.stdout, type=Agreement)


def _questions(programs: int, seed: int) -> Iterator[tuple[str, Program]]:
    yield from legality_programs()
    yield from (("", program) for program in draw_programs(programs, seed))


def _answer_rest(path: Path, programs: int, seed: int) -> int:
    """Ask what the file has no answer to, writing each down before and after; return the exit status."""
    known = {(answer.operation, answer.text) for answer in load_recording(path).answers}
    gc.freeze()  # a capture collects garbage first, and there is much that is none
    with path.open("ab", buffering=0) as file:
        for operation, program in _questions(programs, seed):
            pending = Answer(msgspec.json.decode(encode_program(program)), {}, operation)
            if (operation, pending.text) in known:
                continue
            known.add((operation, pending.text))
            file.write(_line(pending))
            file.write(_line(msgspec.structs.replace(pending, answers=ask(program, operation, "cuda"))))
            if find_damage():
                return _SPENT
    return 0


def _line(answer: Answer) -> bytes:
    return msgspec.json.encode(answer) + b"\n"


def _tidy(path: Path) -> None:
    """Keep one line a program: the answers, or that its process died of it."""
    recording = load_recording(path)
    answers: dict[tuple[str, str], Answer] = {}
    for answer in recording.answers:
        key = (answer.operation, answer.text)
        if key not in answers or answer.answers:
            answers[key] = answer
    lines = [msgspec.json.encode(recording.head) + b"\n"]
    for answer in answers.values():
        question = "legality" if answer.operation else f"verdict {TARGETS[0]}"
        lines.append(_line(answer if answer.answers else msgspec.structs.replace(answer, answers={question: CRASHED})))
    path.write_bytes(b"".join(lines))


def main(arguments: Sequence[str]) -> int:
    """Be a child process: ask the GPU the rest of a recording's questions, or the emulation all of them."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path = Path(arguments[0])
    if len(arguments) > 1:
        return _answer_rest(path, int(arguments[1]), int(arguments[2]))
    sys.stdout.buffer.write(msgspec.json.encode(compare(load_recording(path))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
