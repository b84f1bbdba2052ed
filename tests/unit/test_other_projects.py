"""Another project's tests use the plugin: fixtures, fuzz targets of their own, properties in the JUnit file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import cgverify

ROOT = Path(cgverify.__file__).parents[1]
PLUGIN = "cgverify.fuzzing.pytest_plugin"

CONFTEST = """
import pytest


@pytest.fixture
def weights(cuda):
    import torch

    return torch.arange(3.0, device="cuda")
"""

TRANSFORMS = """
from cgverify import CUDAGraphTransform


class Mine(CUDAGraphTransform):
    pass
"""

TESTS = """
import cgverify
import pytest
import thunder
import torch
from thunder.core.trace import from_trace


def traces(weights):
    jitted = thunder.jit(lambda x: torch.relu(x * 2) + 1)
    jitted(weights)
    before = thunder.last_traces(jitted)[-1]
    return before, cgverify.cuda_graph_transform(before)


def test_device(weights):
    graph = torch.cuda.CUDAGraph()
    doubled = weights * 2
    with torch.cuda.graph(graph):
        doubled = weights * 2
    weights.fill_(4.0)
    graph.replay()
    assert doubled.tolist() == [8.0, 8.0, 8.0]


def test_right_rewrite(weights, assert_verified):
    assert_verified(*traces(weights))


def test_wrong_rewrite(weights, assert_verified):
    before, _ = traces(weights)
    after = from_trace(before)
    after.bound_symbols = [bsym for bsym in before.bound_symbols if bsym.sym.name != "relu"]
    with pytest.raises(AssertionError, match="CG101"):
        assert_verified(before, after)


def test_equivalence(fuzz):
    fuzz("equivalence", 1)
"""


def test_another_project(tmp_path: Path) -> None:
    """With nothing but the package, a project gets a device, proofs, fuzzing of its own transform, and its totals."""
    for name, text in (("conftest.py", CONFTEST), ("mine.py", TRANSFORMS), ("test_mine.py", TESTS)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    loaded = any(point.value == PLUGIN for point in metadata.entry_points(group="pytest11"))
    command = [sys.executable, "-m", "pytest", *(() if loaded else ("-p", PLUGIN)), "-q", "-p", "no:cacheprovider"]
    command += [
        "--cgverify-target=mine:Mine",
        "--cgverify-programs=40",
        "--cgverify-profile=gate",
        "--cgverify-device=emulated",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))}
    done = subprocess.run(
        [*command, "--junitxml=junit.xml"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
    assert "target mine:Mine" in done.stdout
    xml = (tmp_path / "junit.xml").read_text()
    properties = dict(re.findall(r'name="cgverify-((?!outcome)[^"]+)" value="([^"]*)"', xml))
    assert properties["target"] == "mine:Mine"
    assert properties["device"] == "emulated"
    assert properties["campaign"] == "gate"
    counts = {name: int(properties[name]) for name in ("programs", "ok", "fail", "incomparable", "distinct-failures")}
    assert counts["programs"] == counts["ok"] + counts["incomparable"] == 5
    assert counts["fail"] == counts["distinct-failures"] == 0
    assert any(name.startswith("tier-") for name in properties)
