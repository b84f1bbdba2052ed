"""The verifier in somebody else's project, end to end: a transform with a runtime of its own, and its contract."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cgverify

import pytest

ROOT = Path(cgverify.__file__).parents[1]
PAGE = ROOT / "docs" / "contracts.md"

USES = """
import cgverify

import thunder
import torch
from cgverify.emulation import EmulatedCUDA

from graphs import CONTRACT, MyGraphs


def f(x):
    return torch.relu(x) + 1.0


def g(state, x):
    state.add_(x)
    return torch.relu(x) * 2.0


if __name__ == "__main__":
    with EmulatedCUDA():
        x = torch.ones(2, device="cuda")
        guard = cgverify.Verified(MyGraphs(), contract=CONTRACT)
        print(thunder.jit(f, transforms=[guard])(x).tolist(), [report.ok for report in guard.reports])
        try:
            thunder.jit(g, transforms=[cgverify.Verified(MyGraphs(), contract=CONTRACT)])(x.clone(), x)
        except cgverify.VerificationError as error:
            print(error.report.codes)
        report = cgverify.verify_each(g, x.clone(), x, transforms=[MyGraphs()], contract=CONTRACT)
        print(report.guilty.name)
        print(report.render("json").replace("\\n", " "))
        print(report.render("github"))
"""

TESTS = """
import cgverify

import thunder
import torch
from cgverify.emulation import EmulatedCUDA

from graphs import CONTRACT, MyGraphs
from uses import f, g


def rewritten(function, *shapes):
    with EmulatedCUDA():
        jitted = thunder.jit(function)
        jitted(*(torch.ones(shape, device="cuda") for shape in shapes))
        before = thunder.last_traces(jitted)[-1]
        return before, MyGraphs().transform_trace_post_optimization(before)


def test_f(assert_verified):
    assert_verified(*rewritten(f, 2), contract=CONTRACT)


def test_g():
    cgverify.assert_verified(*rewritten(g, 2, 2), contract=CONTRACT)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the transform of the page on contracts, and uses of it."""
    folder = tmp_path_factory.mktemp("project")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (graphs,) = [block for block in blocks if "class MyGraphs" in block]
    (folder / "graphs.py").write_text(graphs, encoding="utf-8")
    (folder / "uses.py").write_text(USES, encoding="utf-8")
    (folder / "test_mine.py").write_text(TESTS, encoding="utf-8")
    return folder


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-W", "ignore", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_guards_and_annotations(project: Path) -> None:
    """A right rewrite runs; a lost write raises by its code, is blamed on the transform, and marks the user's line."""
    ran = _run(project, "uses.py")
    assert ran.returncode == 0, ran.stderr
    first, second, third, machine, *annotations = ran.stdout.splitlines()
    assert first == "[2.0, 2.0] [True, True]"  # as recorded, and as executed
    assert "CG401" in second
    assert third == "MyGraphs"
    (wrong,) = [step for step in json.loads(machine)["passes"] if not step["report"]["ok"]]
    assert wrong["pass"] == "MyGraphs"
    assert "CG401" in {found["code"] for found in wrong["report"]["diagnostics"]}
    line = USES.splitlines().index("    state.add_(x)") + 1
    lost = [text for text in annotations if text.startswith("::error title=CG401 lost-input-write,")]
    assert lost
    assert lost[0].startswith(
        f"::error title=CG401 lost-input-write,file={project / 'uses.py'},line={line}::the write to"
    )


def test_in_pytest(project: Path) -> None:
    """In a test of the project the right rewrite passes, and the wrong one fails with the report."""
    plugin = ("-p", "cgverify.fuzzing.pytest_plugin") if "cgverify" not in _plugins() else ()
    ran = _run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, "test_mine.py")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed, 1 passed" in ran.stdout
    assert "error[CG401]: the write to `state` in `MyGraph0` is lost: it never reaches" in ran.stdout


def _plugins() -> Iterator[str]:
    """Names of pytest plugins that are registered by an installed package."""
    from importlib.metadata import entry_points

    return (entry.name for entry in entry_points(group="pytest11"))
