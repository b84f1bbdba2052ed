"""The gate: open and closed, runs that prove nothing, and what it tells GitHub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

import cgverify
from cgverify.cli import main
from cgverify.gate import Request, Result, judge_run, render_annotations, render_markdown

import pytest

ROOT = Path(cgverify.__file__).parents[1]

FAILURE = {
    "key": "lost-write-add-1",
    "invariant": "lost-write",
    "kinds": ["add_"],
    "evidence": "x0 differs",
    "source": "def program(x0):\n    return x0\n",
    "script": "lost-write.py",
}


def judged(tmp_path: Path, code: int, *cases: str, device: str = "cuda", totals: str = "cuda") -> Result:
    """Judge a JUnit file made of these test cases."""
    suite = f'<properties><property name="cgverify-device" value="{totals}"/></properties>' if totals else ""
    file = tmp_path / "junit.xml"
    file.write_text(f"<testsuites><testsuite>{suite}{''.join(cases)}</testsuite></testsuites>", encoding="utf-8")
    return judge_run(Request(Path("fuzz"), "cgverify", device, "auto", {}), code, file)


def shard(programs: int, *failures: object) -> str:
    """A test case that left the outcome of a shard."""
    statuses = {"ok": programs - len(failures), "fail": len(failures)}
    common = {"property": "equivalence", "programs": programs, "seconds": 1.0, "statuses": statuses, "base_faults": []}
    text = quoteattr(json.dumps({**common, "failures": failures}))
    fault = '<failure message="1 distinct failure"/>' if failures else ""
    outcome = f'<properties><property name="cgverify-outcome" value={text}/></properties>'
    return f'<testcase classname="fuzz" name="t">{outcome}{fault}</testcase>'


def test_open_gate(tmp_path: Path) -> None:
    """A green run with programs on a GPU opens the gate."""
    found = judged(tmp_path, 0, shard(20), shard(30))
    assert (found.problems, found.programs, found.failures) == ((), 50, [])
    assert "## cgverify gate: open" in render_markdown(found)
    assert render_annotations(found) == []


@pytest.mark.parametrize(
    ("code", "cases", "totals", "problem"),
    [
        (0, [shard(20)], "emulated", "no program ran on a GPU: 20 ran on emulated"),
        (0, [shard(0)], "cuda", "no program ran"),
        (0, [], "", "no program ran"),
        (5, [], "", "no fuzz target was found in fuzz"),
        (1, [shard(20, FAILURE), shard(20, FAILURE)], "cuda", "distinct failures: 1 in 40 programs"),
        (1, [shard(20)], "cuda", "too little happened in the run for it to prove anything, see the lines FAILED above"),
        (
            1,
            [shard(20), '<testcase classname="c" name="n"><failure message="corrupt file&#10;more"/></testcase>'],
            "cuda",
            "fuzz targets that failed otherwise: 1, the first with: corrupt file",
        ),
    ],
)
def test_closed_gate(tmp_path: Path, code: int, cases: list[str], totals: str, problem: str) -> None:
    """A failure closes the gate, and so does a run that proves nothing, above all one without a GPU."""
    assert judged(tmp_path, code, *cases, totals=totals).problems == (problem,)


def test_programs_off_a_gpu_are_enough_where_none_is_asked_for(tmp_path: Path) -> None:
    """With the device auto the emulation's programs count."""
    assert judged(tmp_path, 0, shard(20), device="auto", totals="emulated").problems == ()


def test_what_github_is_told(tmp_path: Path) -> None:
    """Problems and failures become annotations of one line each, and the page holds the program and its script."""
    found = judged(tmp_path, 1, shard(20, FAILURE))
    assert render_annotations(found) == [
        "::error title=cgverify gate::distinct failures: 1 in 20 programs",
        "::error title=cgverify%3A lost-write::"
        "x0 differs%0A%0Adef program(x0):%0A    return x0%0A%0Areproduce: python lost-write.py",
    ]
    page = render_markdown(found)
    assert "## cgverify gate: closed" in page
    assert "```python\ndef program(x0):\n    return x0\n```" in page
    assert "Reproduce: `python lost-write.py`" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "error: no folder nosuch: name the folder of your fuzz targets"),
        ([".", "--workers", "many"], "error: --workers many is neither auto nor a number"),
    ],
)
def test_errors_of_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be run is one line on standard error and exit code 2."""
    assert main(["gate", *arguments]) == 2
    assert capsys.readouterr().err.strip() == message


@pytest.mark.parametrize(("target", "code"), [("cgverify", 0), ("cgverify.fuzzing.mutants:LostWrite", 1)])
def test_a_planted_fault_closes_the_gate(tmp_path: Path, target: str, code: int) -> None:
    """The command ends with 0 for our transform and with 1 for one with a planted fault, and leaves the evidence."""
    (tmp_path / "fuzz").mkdir()
    (tmp_path / "fuzz" / "test_it.py").write_text("def test_it(fuzz):\n    fuzz('equivalence', 1)\n", encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-m", "cgverify", "gate", "--target", target, "--workers", "0"]
    command += ["--programs", "160", "--device", "emulated"]
    summary = tmp_path / "step.md"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    assert ("open: 20 programs on emulated" in done.stdout) == (code == 0)
    assert (f"gate: {'closed' if code else 'open'}") in summary.read_text(encoding="utf-8")
    assert bool(list((tmp_path / ".cgverify" / "failures").glob("lost-write*.py"))) == (code == 1)
    assert (tmp_path / ".cgverify" / "junit.xml").is_file()
