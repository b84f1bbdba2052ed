"""The command line: exit codes, and one line for whatever is wrong with what it was given."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cgverify
from cgverify import cli, hunting
from cgverify.fuzzing.mutants import MUTANTS
from cgverify.fuzzing.mutators import MUTATORS, Mutator
from cgverify.verifier import registry

import pytest

FILES = Path(__file__).parent / "cli_files"
MODEL = str(FILES / "model.py")

Output = pytest.CaptureFixture[str]


def check(*arguments: str) -> int:
    """Run ``cgverify check`` on the emulation."""
    return cli.main(["check", *arguments, "--device", "emulated"])


@pytest.mark.parametrize(("target", "regions"), [("cgverify", 2), ("KeepsAll", 0), ("none", 0)])
def test_right_transform_is_proved(target: str, regions: int, capsys: Output) -> None:
    """A right transform exits 0, forward and backward proved."""
    assert check(f"{MODEL}:step", "--target", target) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"{MODEL}:step under {target} on emulated: proved, {regions} regions"


@pytest.mark.parametrize("target", ["SwapsArguments", f"{MODEL}:SwapsArguments", "EditsInPlace"])
def test_broken_transform_is_found(target: str, capsys: Output) -> None:
    """A transform that swaps arguments exits 1 with the code for a wrong value, even if it edits its input trace."""
    assert check(f"{MODEL}:difference", "--inputs", "f32[2,3] f32[2,3]", "--target", target) == 1
    out = capsys.readouterr().out
    assert "error[CG501]" in out
    assert out.splitlines()[-1].endswith("on emulated: not proved, 0 regions")


def test_module_goes_to_the_device(capsys: Output) -> None:
    """A module may be checked as it stands in its file: it is moved to the device, and its parameters stay in place."""
    assert check(f"{FILES / 'pictured.py'}:model") == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(":model under cgverify on emulated: proved, 2 regions")


def test_decorated_function_takes_what_it_takes(capsys: Output) -> None:
    """Arguments are held against the function that is called, not against the one that it wraps."""
    assert check(f"{MODEL}:takes_one") == 0
    assert "proved, 1 region" in capsys.readouterr().out


def test_importable_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target may be a module on the import path and an attribute of it."""
    monkeypatch.syspath_prepend(str(FILES))
    assert check(f"{MODEL}:step", "--target", "model:SwapsArguments") == 1


def test_thunders_transform_is_judged_by_its_contract(capsys: Output) -> None:
    """Thunder's own transform is known to return memory that the next replay overwrites."""
    assert check(f"{MODEL}:step", "--target", "thunder") == 1
    assert "error[CG302]" in capsys.readouterr().out


def test_json_is_one_object(capsys: Output) -> None:
    """``--format json`` prints one object, with a report for each compiled trace."""
    assert check(f"{MODEL}:step", "--target", "SwapsArguments", "--format", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert "CG501" in {d["code"] for report in found["reports"] for d in report["diagnostics"]}


@pytest.mark.parametrize("command", ["check", "show"])
def test_json_is_alone(command: str, capsys: Output) -> None:
    """What the user's code prints goes to standard error, so that standard output is JSON and nothing else."""
    assert cli.main([command, f"{MODEL}:talks", "--device", "emulated", "--json"]) == 0
    written = capsys.readouterr()
    assert json.loads(written.out)["ok"] is True
    assert "making arguments" in written.err


def test_function_without_graphs_says_where_to_look(capsys: Output) -> None:
    """A proof about no graph at all names the command that says why there is none."""
    assert check(f"{MODEL}:spectrum") == 0
    assert capsys.readouterr().out.endswith(f"proved, 0 regions; cgverify show {MODEL}:spectrum says why\n")


def test_github_without_findings_is_empty(capsys: Output) -> None:
    """``--format github`` prints not even an empty line where there is nothing to annotate."""
    assert check(f"{MODEL}:step", "--format", "github") == 0
    assert capsys.readouterr().out == ""


def test_github_is_annotations_alone(capsys: Output) -> None:
    """``--format github`` prints workflow commands and nothing else."""
    assert check(f"{MODEL}:step", "--target", "SwapsArguments", "--format", "github") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py:f"], "cannot read nowhere.py: no such file; give FILE.py:FUNC"),
        ([MODEL], f"cannot read '{MODEL}': it names no function; give FILE.py:FUNC"),
        ([f"{MODEL}:stop"], f"{MODEL} has no function 'stop': it defines step, step_inputs, difference"),
        ([f"{MODEL}:difference"], f'{MODEL} has no difference_inputs(device): add it, or give --inputs "f32[4,4]"'),
        ([f"{MODEL}:branches"], f"Thunder cannot compile {MODEL}:branches: "),
        (
            [f"{MODEL}:forgets_a_comma"],
            "forgets_a_comma_inputs returned a Tensor: it must return the tuple of arguments",
        ),
        (
            [f"{MODEL}:step", "--target", "best"],
            "unknown target 'best': model has no 'best'; choose cgverify, thunder, none, ",
        ),
        (
            [f"{MODEL}:step", "--target", "nowhere.at:all"],
            "target 'nowhere.at:all': No module named 'nowhere'; give a ",
        ),
        (
            [f"{MODEL}:step", "--target", "not_a_transform"],
            "target 'not_a_transform' is a int: it must be, or return, ",
        ),
        ([f"{MODEL}:step", "--target", "Fails"], f"target Fails failed on {MODEL}:step: RuntimeError: no idea; "),
        ([f"{MODEL}:step", "--inputs", "f99[2]"], "cannot read input 'f99[2]': write DTYPE[SIZES], such as f32[4,4]; "),
        ([f"{MODEL}:step", "--inputs", "f32[3 4]"], "cannot read input 'f32[3 4]': write DTYPE[SIZES], such as "),
        ([f"{MODEL}:step", "--inputs", "f32[,]"], "cannot read input 'f32[,]': write DTYPE[SIZES], such as f32[4,4]; "),
        ([f"{MODEL}:step", "--inputs", f"f32[{10**20}]"], f"cannot make input 'f32[{10**20}]': TypeError: "),
        ([f"{MODEL}:step", "--target", "needs_more"], "cannot make target 'needs_more': TypeError: needs_more() "),
        ([f"{MODEL}:step", "--target", "Exits"], f"target Exits failed on {MODEL}:step: SystemExit: 0; nothing was "),
        (
            [f"{MODEL}:step", "--target", "ReturnsNothing"],
            f"target ReturnsNothing failed on {MODEL}:step: TypeError: ReturnsNothing returned None for the trace ",
        ),
        ([f"{MODEL}:exits"], "exits_inputs failed: SystemExit: 0; it takes a device and returns a tuple"),
        ([f"{MODEL}:gives_up"], f"{MODEL}:gives_up ended the process, with SystemExit(3): nothing was verified; "),
        (
            [f"{MODEL}:takes_two"],
            f"{MODEL}:takes_two does not take the 1 argument of takes_two_inputs: missing a required argument: 'y'; ",
        ),
        ([f"{MODEL}:step", "--inputs", "2,3"], "cannot read input '2,3': write DTYPE[SIZES], such as f32[4,4]; "),
    ],
)
def test_unusable_check_is_one_line(arguments: list[str], message: str, capsys: Output) -> None:
    """What cannot be checked exits 2 with one line that says what, why and what to do."""
    assert check(*arguments) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith(f"error: {message}")
    assert written.err.count("\n") == 1


@pytest.fixture
def interrupts() -> Iterator[None]:
    """SIGINT interrupts, also where the process was started with the signal ignored, as shells do in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("command", ["check", "show"])
def test_interrupt_is_one_word(command: str, capsys: Output) -> None:
    """Ctrl-C in the middle of a command ends it with one word and the exit code that shells know."""
    assert cli.main([command, f"{MODEL}:is_stopped", "--device", "emulated"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.usefixtures("interrupts")
def test_interrupt_of_a_group_is_one_word(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """Ctrl-C ends a command of a group as it ends any other."""
    monkeypatch.setattr(json, "dumps", lambda *_: signal.raise_signal(signal.SIGINT))
    assert cli.main(["campaign", "matrix"]) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(:", "SyntaxError: invalid syntax"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("raise SystemExit(0)", "SystemExit: 0"),
    ],
)
def test_broken_file_is_one_line(source: str, message: str, tmp_path: Path, capsys: Output) -> None:
    """A file that Python cannot import exits 2 with the cause."""
    file = tmp_path / "broken.py"
    file.write_text(source)
    assert check(f"{file}:f") == 2
    assert capsys.readouterr().err.startswith(f"error: cannot import {file}: {message}")


def write_program(file: Path, **changes: object) -> str:
    """Write a program of two multiplications, called three times, and return its path."""
    program = {
        "format": "cgverify-program",
        "version": 1,
        "inputs": [{"shape": [2, 3], "dtype": "f32"}],
        "steps": [{"op": "mul", "args": [0, 0]}, {"op": "mul", "args": [0, 1]}],
        "outputs": [2],
        "history": [{"do": "call", "seeds": [seed]} for seed in (1, 2, 3)],
    }
    file.write_text(json.dumps({**program, **changes}))
    return str(file)


@pytest.mark.parametrize(
    ("target", "code", "last"),
    [
        ("cgverify", 0, "ok: thunder.jit on emulated:"),
        ("none", 0, "ok: thunder.jit on emulated:"),
        ("thunder", 1, "fail: the trace run on emulated: held-result-changed result 0, still held at the end, is "),
    ],
)
def test_program_file_is_judged(target: str, code: int, last: str, tmp_path: Path, capsys: Output) -> None:
    """``reproduce`` prints the program and the verdict, and exits 1 where an oracle fails."""
    file = write_program(tmp_path / "program.json")
    assert cli.main(["reproduce", file, "--target", target, "--device", "emulated", "--isolate", "never"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "def program(x0):"
    assert lines[-1].startswith(last)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_script_is_run(code: int, tmp_path: Path) -> None:
    """``reproduce`` hands on a script's exit code."""
    script = tmp_path / "failure.py"
    script.write_text(f"raise SystemExit({code})")
    assert cli.main(["reproduce", str(script)]) == code


def test_crashing_program_is_reproduced(tmp_path: Path, capsys: Output) -> None:
    """A program that ends the process that runs it has shown its failure, and the command says so."""
    file = write_program(tmp_path / "program.json", steps=[{"op": "sin", "args": [0]}])
    target = ["--target", "tests.fuzzing.deadly:Deadly"]
    assert cli.main(["reproduce", file, *target, "--device", "emulated", "--blame"]) == 1
    *_, verdict, blamed = capsys.readouterr().out.splitlines()
    assert verdict.startswith("fail: the rewritten trace: crash the process dies of SIGABRT")
    assert blamed.startswith("to blame: a crash would end the process that looks")


def test_a_target_that_is_no_transform_is_one_line(tmp_path: Path, capsys: Output) -> None:
    """What the target's name stands for is looked at before anything runs."""
    file = write_program(tmp_path / "program.json")
    assert cli.main(["reproduce", file, "--target", "collections:OrderedDict"]) == 2
    error = capsys.readouterr().err
    assert "is a OrderedDict, which has no transform_trace_post_optimization" in error
    assert error.count("\n") == 1


def test_crashing_script_is_reproduced(tmp_path: Path) -> None:
    """A script that a signal ends has shown its failure."""
    script = tmp_path / "failure.py"
    script.write_text("import os\nos.abort()")
    assert cli.main(["reproduce", str(script)]) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 9}, "has version 9, and this cgverify reads versions 1 to 2; use the cgverify that wrote it, "),
        ({"format": "other"}, 'is not a program file: its "format" is not "cgverify-program"; '),
        ({"steps": [{"op": "conjure"}]}, "step 0 has the unknown op 'conjure'; use one of "),
        ({"colour": 1}, "Object contains unknown field `colour`; "),
    ],
)
def test_unreadable_program_is_one_line(
    changes: dict[str, object], message: str, tmp_path: Path, capsys: Output
) -> None:
    """A program that this version cannot read exits 2, with the reason."""
    assert cli.main(["reproduce", write_program(tmp_path / "program.json", **changes)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("broken.json", "{", "is not JSON (Input data was truncated); a program file holds one JSON object"),
        ("nowhere.json", None, "cannot read"),
        ("nowhere.py", None, "cannot read"),
    ],
)
def test_unreadable_file_is_one_line(name: str, text: str | None, message: str, tmp_path: Path, capsys: Output) -> None:
    """A file that is not there, or is no JSON, exits 2, with the reason."""
    if text is not None:
        (tmp_path / name).write_text(text)
    assert cli.main(["reproduce", str(tmp_path / name)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


SOME = ("FrozenResults", "DeletedBeforeReturn", "OtherPrecision")
"""Mutants that any program shows, one of them to the verifier, and one that needs a GPU."""


def test_mutants_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Output) -> None:
    """``mutants`` plants each fault several times, runs each mutant, and says how each was caught, as JSON too."""
    monkeypatch.setattr(hunting, "MUTANTS", [mutant for mutant in MUTANTS if mutant.__name__ in SOME])
    file = tmp_path / "score.json"
    code = cli.main(["mutants", "--programs", "8", "--pairs", "0", "--device", "emulated", "--json", str(file)])
    *lines, last = capsys.readouterr().out.splitlines()
    counts = {line.split()[1]: line.split()[2].split("/") for line in lines if line.startswith("CG")}
    assert set(counts) == {mutator.name for mutator in MUTATORS}
    assert all(caught == planted for caught, planted in counts.values())
    whole = sum(planted != "0" for _, planted in counts.values())
    assert whole > len(counts) / 2
    assert last == f"{whole + 2} of {len(counts) + 2} planted faults are caught"
    assert code == (0 if whole == len(counts) else 1)
    assert "verifier: 1 of 1 faults that traces show" in lines
    assert "running: 1 of 1 faults that show emulated" in lines
    written = json.loads(file.read_text())
    assert written["alarms"] == {"pairs": 0, "false": [], "refused": 0, "lost": 0}
    hunts = {hunt["name"]: hunt for hunt in written["mutants"]}
    assert set(hunts) == set(SOME)
    assert hunts["FrozenResults"]["invariant"] == "wrong-result"
    assert hunts["FrozenResults"]["size"] <= 2
    assert (hunts["DeletedBeforeReturn"]["rejected"], hunts["OtherPrecision"]["possible"]) == ("CG102", False)


def test_blind_verifier_is_seen(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """``mutants`` exits 1 if the verifier misses a fault."""
    monkeypatch.setattr(hunting, "MUTANTS", [])
    monkeypatch.setattr(Mutator, "catches", lambda self, before, after: self.code != "CG501")
    assert cli.main(["mutants", "--programs", "20", "--pairs", "0"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines if line.endswith("missed")} == {"CG501"}


def test_fidelity_needs_the_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Output) -> None:
    """``fidelity`` says where the recorded answers are if the installation has none."""
    monkeypatch.setattr(cgverify, "__file__", str(tmp_path / "cgverify" / "__init__.py"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert cli.main(["fidelity"]) == 2
    assert capsys.readouterr().err.startswith("error: no GPU and no recorded answers here: give a recording, ")


def test_fidelity_needs_answers(tmp_path: Path, capsys: Output) -> None:
    """A recording that was cut off before its first answer is no agreement."""
    file = tmp_path / "recording.jsonl"
    file.write_text('{"gpu":"a GPU","torch":"2.11","cgverify":"0","day":"2026-01-01"}\n', encoding="utf-8")
    assert cli.main(["fidelity", str(file)]) == 2
    assert "holds no answers" in capsys.readouterr().err


def test_explain_prints_each_manual(capsys: Output) -> None:
    """``explain`` prints every rule's manual, whatever the case of the code."""
    for rule in registry.rules():
        assert cli.main(["explain", rule.code.lower()]) == 0
        assert capsys.readouterr().out == registry.explain(rule.code)
        assert registry.explain(rule.name) == registry.explain(f" {rule.code[2:]}") == registry.explain(rule.code)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "XYZ"], "no rule 'XYZ': the codes are CG101, "),
        (["explain", "cg41"], "no rule 'CG41': did you mean CG401"),
        (["expalin"], "No such command 'expalin'. Did you mean 'explain'?; see cgverify --help"),
        (["check"], "Missing argument 'FILE.py:FUNC'; see cgverify check --help"),
        (["check", "x.py:f", "--colour"], "No such option: --colour; see cgverify check --help"),
        (["check", "x.py:f", "--format", "xml"], "Invalid value for '--format': "),
        (["check", "x.py:f", "--device", "cuda"], None),
    ],
)
def test_usage_error_is_one_line(arguments: list[str], message: str | None, capsys: Output) -> None:
    """A command that cannot be understood, or not here, exits 2 with one line."""
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message or ''}")
    assert error.count("\n") == 1


def test_no_arguments_is_help(capsys: Output) -> None:
    """``cgverify`` alone lists its commands."""
    assert cli.main([]) == 0
    assert "check" in capsys.readouterr().out


def test_group_alone_is_help(capsys: Output) -> None:
    """A group of commands alone lists them, as ``cgverify`` alone does."""
    assert cli.main(["campaign"]) == 0
    written = capsys.readouterr()
    assert written.out.startswith("Usage: cgverify campaign ")
    assert written.err == ""


def test_poor_encoding_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where standard output knows no frames of tables, what it lacks is escaped."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert cli.main(["show", f"{MODEL}:step", "--device", "emulated"]) == 0
    assert rb"\u250c G0" in written.getvalue()


def test_closed_output_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that nobody listens to does its work."""
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["explain", "CG101"]) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_full_disk_is_one_line() -> None:
    """Output that cannot be written ends the command with one line."""
    program = "import cgverify.cli, sys; sys.exit(cgverify.cli.main(['explain', 'CG101']))"
    path = os.pathsep.join([str(Path(cgverify.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env={**os.environ, "PYTHONPATH": path},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.stderr == "error: cannot write to standard output: No space left on device; make room\n"
    assert done.returncode == 2


def test_fault_of_ours_is_not_a_finding(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """An exception nobody expected exits 2, with its traceback, so that no gate takes it for a finding."""

    def explode(code: str) -> str:
        raise RuntimeError("boom")

    monkeypatch.setattr(registry, "explain", explode)
    assert cli.main(["explain", "CG101"]) == 2
    assert "RuntimeError: boom" in capsys.readouterr().err


def test_doctor_names_each_part(capsys: Output) -> None:
    """``doctor`` says of each part whether it works, in plain text where there is no terminal."""
    code = cli.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    parts = ["Python", "PyTorch", "Thunder", "GPU", "emulation", "transform", "pytest plugin", "fuzzing"]
    parts += ["entry points", "extras"]
    assert [line[:14].strip() for line in lines] == parts
    assert [line[15:18] for line in lines if line.startswith(("P", "T", "tr", "fu", "en"))] == ["yes"] * 6
    assert "on the GPU" in lines[5] or "proves, captures and replays: on the emulation" in lines[5]
    assert code == (2 if any(line[15:18].strip() == "no" for line in lines) else 0)


def test_python_m_runs_it() -> None:
    """``python -m cgverify`` is the same program, and says its version without importing torch."""
    path = os.pathsep.join([str(Path(cgverify.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-X", "importtime", "-m", "cgverify", "--version"]
    result = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60)
    assert result.stdout == f"cgverify {cgverify.__version__}\n"
    assert result.returncode == 0
    assert "| torch" not in result.stderr
