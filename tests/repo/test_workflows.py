"""What runs on GitHub: everything pinned, nothing permitted that is not needed, each job says what it guards."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import cgverify

import pytest

ROOT = Path(cgverify.__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
RUN = ROOT / ".github" / "actions" / "gpu-gate" / "run.sh"


def name(path: Path) -> str:
    """A file's path in the repository."""
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", WORKFLOWS + ACTIONS, ids=name)
def test_actions_are_pinned(path: Path) -> None:
    """Every action is named by the hash of a commit, with its version beside it, or lies in this repository."""
    for used in re.findall(r"^\s*(?:- )?uses: (.+)$", path.read_text(), flags=re.MULTILINE):
        assert used.startswith("./") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_jobs(path: Path) -> None:
    """A workflow permits nothing by itself, and a comment of one sentence above each job says what it is for."""
    text = path.read_text()
    assert "\npermissions: {}\n" in text
    jobs = re.findall(
        r"^( *#.*\n)?  ([\w-]+):\n    (?:name|runs-on|if|needs)", text[text.index("\njobs:") :], re.MULTILINE
    )
    assert jobs
    for comment, job in jobs:
        assert re.fullmatch(r"  # [A-Z].*\.\n", comment), job


def test_ci_leaves_the_steps_to_the_script() -> None:
    """The workflow of every push runs parts of `.ci/run`, each part once, and knows no tool by name."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    script = (ROOT / ".ci" / "run").read_text()
    parts = [part for line in re.findall(r"- run: bash \.ci/run (.*)", text) for part in line.split()]
    assert sorted(parts) == sorted(re.findall(r"^(\w+)\(\) ", script, flags=re.MULTILINE)[2:])
    assert len(re.findall(r"^\s*(?:- )?run:", text, flags=re.MULTILINE)) == len(re.findall(r"run: bash \.ci/run", text))


@pytest.mark.parametrize(
    ("environment", "arguments"),
    [
        ({}, f"{ROOT}/fuzz --target cgverify --device cuda --profile gate"),
        (
            {
                "TARGET": "m:T",
                "DEVICE": "auto",
                "PROGRAMS": "9",
                "SECONDS_EACH": "7",
                "PROFILE": "dev",
                "FOLDER": "a b",
            },
            "a b --target m:T --device auto --profile dev --programs 9 --seconds 7",
        ),
    ],
)
def test_script_of_the_gate(environment: dict[str, str], arguments: str) -> None:
    """The action's script calls `cgverify gate` with its inputs, and ends as that ends."""
    for command, code in (("echo", 0), ("false", 1)):
        given = {"PATH": os.environ["PATH"], "CGVERIFY": command, **environment}
        done = subprocess.run(["bash", str(RUN)], env=given, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (code, "" if code else f"gate {arguments}\n")
