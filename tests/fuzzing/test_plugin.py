"""The pytest plugin: options and their errors, the `cuda` fixture, shards, the summary, and vacuous runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cgverify.fuzzing import pytest_plugin
from cgverify.fuzzing.profiles import SHARDS, count_workers
from cgverify.fuzzing.program import Input, Program, Step, encode_program
from cgverify.fuzzing.shard_run import run_shard
from cgverify.fuzzing.summary import FLOORS, find_vacuity
from tests.fuzzing.programs_by_name import PROGRAMS

import pytest
import torch

ROOT = Path(__file__).parents[2]


HERE = ("--cgverify-isolate", "never")
"""Judge in the process itself, which starts faster."""


def run_pytest(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run pytest on a small suite of fuzz targets in `folder`."""
    (folder / "test_it.py").write_text(
        "def test_structure(fuzz, shard):\n    fuzz('structure', shard)\n"
        "def test_equivalence(fuzz, shard):\n    fuzz('equivalence', shard)\n",
        encoding="utf-8",
    )
    loaded = [] if _is_installed() else ["-p", "cgverify.fuzzing.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", *loaded, "-p", "no:cacheprovider", "-q", str(folder), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def _is_installed() -> bool:
    from importlib.metadata import entry_points

    return any(entry.value == "cgverify.fuzzing.pytest_plugin" for entry in entry_points(group="pytest11"))


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("--cgverify-target=nosuch", "nosuch"),
        ("--cgverify-target=nosuch.module:Transform", "nosuch.module"),
        ("--cgverify-device=tpu", "tpu"),
        ("--cgverify-profile=fast", "fast"),
        ("--cgverify-programs=0", "must be more than 0"),
        ("--cgverify-seconds=-1", "must be more than 0"),
    ],
)
def test_usage_errors(argument: str, named: str, tmp_path: Path) -> None:
    """An unknown value is pytest's usage error, exit code 4, and nothing runs."""
    done = run_pytest(tmp_path, argument)
    assert done.returncode == 4
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_green_run(tmp_path: Path) -> None:
    """A small run with our transform passes, prints rates, and leaves no failure behind."""
    done = run_pytest(tmp_path, "--cgverify-programs", "16", "--cgverify-device", "emulated", *HERE)
    assert done.returncode == 0, done.stdout
    assert "structure: 16 programs" in done.stdout
    assert "equivalence: 16 programs" in done.stdout
    assert "distinct failures: 0" in done.stdout
    assert not (tmp_path / ".cgverify" / "failures").exists()


def test_red_run(tmp_path: Path) -> None:
    """With Thunder's transform it fails, under xdist too, and names script and shrunk program for each failure."""
    done = run_pytest(
        tmp_path, "-n", "2", "-k", "equivalence", "--cgverify-target", "thunder", "--cgverify-programs", "16", *HERE
    )
    assert done.returncode == 1, done.stdout
    scripts = sorted((tmp_path / ".cgverify" / "failures").glob("*.py"))
    assert scripts
    assert all(script.with_suffix(".json").exists() for script in scripts)
    assert "def program(x0" in done.stdout
    assert f"reproduce: python {tmp_path}" in done.stdout
    assert "distinct failures: 0" not in done.stdout


def test_gate_is_the_same_serial_and_parallel(tmp_path: Path) -> None:
    """The gate draws the same programs however many workers share its shards."""
    plugin = tmp_path / "show_hashes.py"
    plugin.write_text(
        "import json\n"
        "def pytest_terminal_summary(terminalreporter):\n"
        "    for report in terminalreporter.stats.get('passed', []):\n"
        "        for key, text in report.user_properties:\n"
        "            terminalreporter.write_line('HASH ' + json.loads(text)['hashes'])\n",
        encoding="utf-8",
    )
    runs = [
        run_pytest(
            tmp_path,
            *(
                "-k",
                "structure",
                "-p",
                "show_hashes",
                "--cgverify-profile",
                "gate",
                "--cgverify-programs",
                "24",
                *HERE,
                *extra,
            ),
            env={"PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))},
        )
        for extra in ((), ("-n", "2"))
    ]
    printed = [line for run in runs for line in run.stdout.splitlines() if "the set of programs has the hash" in line]
    assert len(printed) == 2
    assert len(set(printed)) == 1
    serial, parallel = (sorted(line for line in run.stdout.splitlines() if line.startswith("HASH")) for run in runs)
    assert len(serial) == SHARDS
    assert len(set(serial)) == SHARDS
    assert serial == parallel


def test_a_run_that_dies_is_taken_up(tmp_path: Path) -> None:
    """A program that takes the whole run down is run first the next time, in a child, and is a crash then."""
    options = (
        "-k",
        "structure and 0",
        "--cgverify-target",
        "tests.fuzzing.deadly:Fragile",
        "--cgverify-profile",
        "gate",
    )
    died = run_pytest(tmp_path, *options, "--cgverify-programs", "800", *HERE)
    assert died.returncode < 0
    done = run_pytest(tmp_path, *options, "--cgverify-programs", "8")
    assert done.returncode == 1, done.stdout
    assert "1 examples were running when their process ended; run again: 1 fail" in done.stdout
    assert "crash: the process dies of SIGABRT" in done.stdout
    assert list((tmp_path / ".cgverify" / "journal").iterdir()) == []


def test_a_kept_program_that_crashes_is_a_failure(tmp_path: Path) -> None:
    """A program of the corpus that ends its process fails its own test, and the run goes on."""
    shutil.copy(ROOT / "fuzz" / "test_corpus.py", tmp_path)
    (tmp_path / "corpus").mkdir()
    deadly = Program(inputs=(Input(shape=(2,)),), steps=(Step("sin", (0,)),), outputs=(-1,))
    for name, program in (("deadly", deadly), ("double", PROGRAMS["double"])):
        (tmp_path / "corpus" / f"{name}.json").write_text(encode_program(program), encoding="utf-8")
    done = run_pytest(tmp_path, "-k", "corpus", "--cgverify-target", "tests.fuzzing.deadly:Deadly")
    assert "1 failed, 1 passed" in done.stdout
    assert "crash: the process dies of SIGABRT" in done.stdout


@pytest.mark.parametrize(
    ("visible", "device", "workers"), [("0,1", "auto", 6), ("", "cuda", None), ("0", "emulated", None)]
)
def test_auto_workers(visible: str, device: str, workers: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-n auto` means GPUs times slots, at most one for each core; without GPUs it is left to pytest-xdist: cores."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert count_workers(device) == workers


PLAIN = "def test_plain():\n    fuzz = 1\n"
"""A test that is no fuzz target."""


@pytest.mark.parametrize(
    ("text", "arguments", "workers"),
    [
        (PLAIN, ["-n", "auto"], None),
        (PLAIN, ["-n", "auto", "--cgverify-device=auto"], 3),
        ("def test_it(\n    fuzz, shard\n):\n    pass\n", ["-n", "auto"], 3),
        ("class TestIt:\n    def test_it(self, shard, fuzz):\n        pass\n", ["-n", "auto"], 3),
        ("def test_it(fuzzy):\n    pass\n", ["-n", "auto"], None),
    ],
)
@pytest.mark.parametrize("place", ["", "tests/test_one.py::test_it"])
def test_auto_is_replaced_for_fuzz_targets_only(
    text: str, arguments: list[str], workers: int | None, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a project that has the plugin and no fuzz target among what is run, `-n auto` is pytest-xdist's own."""
    for name in ("tests/test_one.py", "environment/test_other.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text if name.startswith("tests") else "def test_it(fuzz): ...\n", encoding="utf-8")
    (tmp_path / "environment" / "pyvenv.cfg").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("CGVERIFY_GPUS", "")
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    config: Any = SimpleNamespace(
        args=[place or str(tmp_path)],
        invocation_params=SimpleNamespace(dir=tmp_path, args=arguments),
        getini={"python_files": ["test_*.py"], "norecursedirs": ["build"]}.get,
        getoption=lambda name: "auto",
    )
    assert pytest_plugin.pytest_xdist_auto_num_workers(config) == workers
    assert os.environ["CGVERIFY_GPUS"] == ("0" if workers else "")


def test_loading_imports_neither_torch_nor_thunder() -> None:
    """The plugin costs nothing where it is idle."""
    code = "import sys, cgverify.fuzzing.pytest_plugin; print({'torch', 'thunder', 'hypothesis'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"


def test_cuda_fixture(cuda: Any) -> None:
    """The fixture gives a device that says it is CUDA and can capture a graph, emulated where there is no GPU."""
    x = torch.ones(3, device="cuda")
    assert str(x.device) == "cuda:0"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    x.fill_(4.0)
    graph.replay()
    assert y.tolist() == [8.0, 8.0, 8.0]


def test_an_unknown_property_is_named(pytestconfig: pytest.Config) -> None:
    """A fuzz target that asks for a property that does not exist fails in one line that says which there are."""
    with pytest.raises(pytest.fail.Exception, match=r"fuzz\('nosuch'\): .* choose from structure, equivalence"):
        run_shard(pytestconfig, "nosuch", 0, "tests")


def _outcome(**changes: int) -> dict[str, Any]:
    statuses = {"ok": 1000, "fail": 0, "incomparable": 0, **{name: 900 for name in FLOORS}, **changes}
    return {"property": "equivalence", "programs": 1000, "statuses": statuses}


def test_vacuity() -> None:
    """A run in which nothing is captured, finite or comparable is called so; a lively one and a short one are not."""
    assert find_vacuity([_outcome()]) == []
    assert find_vacuity([_outcome(captured=10)]) == [
        "equivalence: only 10 of 1000 judged programs are captured; at least 40% should be"
    ]
    assert find_vacuity([_outcome(captured=10)], graphs=False) == []
    assert "incomparable" in find_vacuity([_outcome(incomparable=900)])[0]
    assert find_vacuity([{**_outcome(captured=0), "programs": 100}]) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED),
        (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERRUPTED),
        (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.INTERNAL_ERROR),
    ],
)
def test_a_vacuous_run_that_was_interrupted_says_so(
    before: pytest.ExitCode, after: pytest.ExitCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That too little happened fails a run that went through, and hides no other end of it."""
    monkeypatch.setattr(pytest_plugin, "_record_totals", lambda config: None)
    config: Any = SimpleNamespace(
        stash={pytest_plugin._OUTCOMES: [_outcome(captured=0)]}, getoption=lambda name: "cgverify"
    )
    session: Any = SimpleNamespace(config=config, exitstatus=before)
    pytest_plugin.pytest_sessionfinish(session)
    assert session.exitstatus == after
