"""Lists the failures in a folder as a Markdown table: key, broken invariant, reduced program, what happens.

`python -m cgverify.fuzzing.listing FOLDER` prints it; docs/thunder-failures.md is made with it. A failure is a program
file whose `why` says what it breaks, as the fuzzer writes them to `.cgverify/failures`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cgverify.fuzzing.program import Program, load_program
from cgverify.fuzzing.rendering import render_body
from cgverify.fuzzing.resolution import resolve_program

LONGEST = 160
"""Characters of a cell; what is longer is cut."""


def render_table(folder: Path) -> str:
    """Return the table of all program files in a folder, smallest programs first within each invariant.

    Raises:
        ProgramError: a file is no program file.
    """
    programs = {path.stem: load_program(path) for path in folder.glob("*.json")}
    ordered = sorted(programs, key=lambda key: (_invariant(programs[key]), len(programs[key].steps), key))
    return "\n".join(["| failure | program | what happens |", "|---|---|---|", *_rows(ordered, programs)])


def _rows(keys: Sequence[str], programs: dict[str, Program]) -> Iterator[str]:
    for key in keys:
        program = programs[key]
        inputs = ", ".join(f"x{n}: {entry.dtype}{list(entry.shape)}" for n, entry in enumerate(program.inputs))
        body = "; ".join(line.strip() for line in render_body(resolve_program(program)))
        happens = re.sub(r"^\S+ with target \S+: ", "", program.why)
        yield f"| `{key}` | {_code(inputs)} {_code(body)} | {_cut(_plain(happens))} |"


def _invariant(program: Program) -> str:
    return program.why.split(" ")[0]


def _code(text: str) -> str:
    return f"`{_cut(text).replace('|', '&#124;')}`" if text else ""


def _plain(text: str) -> str:
    """One line, with nothing in it that Markdown or a table would read."""
    return re.sub(r"([|<>*_\\[\]])", r"\\\1", " ".join(text.split()))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()} ..."


def main(arguments: Sequence[str]) -> int:
    """Print the table of a folder."""
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print("error: give one folder of program files, such as .cgverify/failures", file=sys.stderr)
        return 2
    print(render_table(Path(arguments[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
