"""What all commands have in common: help that can be read, options that mean one thing, JSON of one shape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cgverify
from cgverify import cli
from cgverify.commands.options import fill_in_json

import pytest
import typer

ROOT = Path(cgverify.__file__).parents[1]
MODEL = f"{Path(__file__).parent / 'cli_files' / 'model.py'}:step"

Output = pytest.CaptureFixture[str]


def commands() -> Iterator[tuple[str, Any]]:
    """Every command, those of groups too, by what is typed."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for inner, found in getattr(command, "commands", {}).items():
            yield from walk(f"{name} {inner}".strip(), found)

    return walk("", typer.main.get_command(cli.app))


NAMES = [name for name, _ in commands()]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cgverify", *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("name", NAMES, ids=lambda name: name or "cgverify")
def test_help_fits_a_terminal(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """Each help text fits 80 columns, says what the command does, and ends with code 0."""
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.main([*name.split(), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert len(lines[2]) > 20


def test_list_of_commands_is_not_cut(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """The list of commands says of each in one whole line what it does."""
    monkeypatch.setenv("COLUMNS", "80")
    cli.main(["--help"])
    lines = capsys.readouterr().out.partition("Commands:")[2].splitlines()[1:]
    assert [line.split()[0] for line in lines] == [name for name in NAMES if name and " " not in name]
    assert [line for line in lines if not line.endswith(".") or line.endswith("...")] == []


@pytest.mark.parametrize("option", ["--json", "--inputs"])
def test_an_option_means_one_thing(option: str) -> None:
    """An option that several commands have is spelled alike and says the same in all."""
    found = {
        (tuple(parameter.opts), parameter.metavar, parameter.help)
        for _, command in commands()
        for parameter in command.params
        if option in parameter.opts
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        (["doctor", "--json"], ["doctor", "--json", "-"]),
        (["check", "a.py:f", "--json", "--target", "none"], ["check", "a.py:f", "--json", "-", "--target", "none"]),
        (["mutants", "--json", "-j", "4"], ["mutants", "--json", "-", "-j", "4"]),
        (["bench", "--json", "rows.json"], ["bench", "--json", "rows.json"]),
        (["bench", "--json", "-"], ["bench", "--json", "-"]),
        (["bench", "--json=rows.json"], ["bench", "--json=rows.json"]),
        ([], []),
    ],
)
def test_json_alone_is_standard_output(given: list[str], filled: list[str]) -> None:
    """``--json`` without a file prints."""
    assert fill_in_json(given) == filled


@pytest.mark.parametrize(
    ("arguments", "subject", "key"),
    [
        (["check", MODEL, "--device", "emulated"], "check", "reports"),
        (["show", MODEL, "--device", "emulated"], "partition", "sheets"),
        (["explain", "cg101"], "rule", "manual"),
        (["doctor"], "doctor", "findings"),
    ],
)
def test_json_has_one_shape(arguments: list[str], subject: str, key: str, tmp_path: Path, capsys: Output) -> None:
    """JSON is one object that says its format and version, the same on standard output and in a file."""
    code = cli.main([*arguments, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert (printed["format"], printed["version"]) == (f"cgverify-{subject}", 1)
    assert printed[key]
    file = tmp_path / "found.json"
    assert cli.main([*arguments, "--json", str(file)]) == code
    assert json.loads(file.read_text()).keys() == printed.keys()
    assert "cgverify-" + subject not in capsys.readouterr().out


def test_json_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: Output) -> None:
    """A file in a folder that does not exist exits 2 with the reason and the remedy."""
    file = tmp_path / "none" / "found.json"
    assert cli.main(["explain", "CG101", "--json", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"error: cannot write {file}: No such file or directory; name a file in a folder that exists\n"
    )


def test_shell_completes_commands_without_torch() -> None:
    """The completion that a shell installs offers commands and options, and imports neither torch nor Thunder."""
    asked = {"_CGVERIFY_COMPLETE": "complete_bash", "COMP_WORDS": "cgverify che", "COMP_CWORD": "1"}
    result = run(**asked)
    assert (result.returncode, result.stdout.split()) == (0, ["check"])
    assert "| torch" not in result.stderr
    script = run(_CGVERIFY_COMPLETE="source_bash")
    assert script.returncode == 0
    assert "complete -o default -F _cgverify_completion cgverify" in script.stdout


def test_reader_that_has_had_enough_is_no_fault() -> None:
    """A pipe closed early, as by ``head``, ends the command without a word."""
    program = "import cgverify.cli, sys; sys.exit(cgverify.cli.main(['explain', 'CG101']))"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=writing, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(writing)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 2
