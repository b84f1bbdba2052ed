"""Thunder's own CUDA-graph transform, judged by its traces alone: the codes that its faults get, and what a GPU showed.

The scenarios compile their functions on the emulation; the verdicts come from the traces before and after the
transform, and are compared with the answers recorded on an H200.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from cgverify.diagnostics import Severity
from cgverify.emulation import EmulatedCUDA
from cgverify.verifier import verify, verify_pair
from cgverify.watching import copy_trace
from tests.golden.probes import thunder_scenarios

import pytest
import torch
from thunder.core.trace import TraceCtx, TraceTag

GOLDEN = Path(__file__).parents[2] / "golden" / "thunder_faults_h200_torch2.11.json"
PAGE = Path(__file__).parents[3] / "docs" / "verifier.md"

# Scenario -> the code of its fault, and how the fault showed on the GPU.
SHOWN: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "b2_outputs_clobbered_by_next_call": ("CG302", lambda found: not found["y1_unchanged"]),
    "b3_item_left_outside_recaptures_every_call": ("CG206", lambda found: found == [2, 3, 4, 5, 6]),
    "b4a_inplace_on_a_copied_input": ("CG401", lambda found: found["x"] == [0.0, 0.0, 0.0]),
    "b4b_inplace_on_a_module_buffer": ("CG403", lambda found: found[0] == 4.0),
    "b4c_batchnorm_running_stats": ("CG403", lambda found: not found["mean_right"]),
    "b5_two_forwards_then_backward": ("CG302", lambda found: not found["grad_is_of_first"]),
    "b6_dropout_from_the_same_seed": ("CG404", lambda found: found[0] is False),
    "b7_parameter_storage_replaced": ("CG301", lambda found: found["stale"]),
    "b7b_parameter_storage_freed_and_reused": ("CG301", lambda found: not found["right"]),
    "b9_cpu_ops_in_the_region": ("CG202", lambda found: found["second"] == found["first"]),
    "b12_output_is_a_view_of_the_static_input": ("CG303", lambda found: found["view_follows_input"] == 1.0),
    "c1_item_captured": ("CG201", lambda found: "not permitted when stream is capturing" in found),
    "c3_host_constant_captured": ("CG202", lambda found: "Cannot copy between CPU and CUDA" in found),
}

# Codes on scenarios that ran right on the GPU: the fault is there, but the scenario does nothing that shows it.
RISKS = {"CG301", "CG302", "CG303", "CG401"}

Pair = tuple[TraceCtx, TraceCtx]


@pytest.fixture(scope="module")
def verdicts() -> dict[str, set[str]]:
    """Scenario -> the codes of all its traces, notes left out."""
    found = {}
    with EmulatedCUDA(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in thunder_scenarios.SCENARIOS:
            pairs: list[Pair] = []
            watching = _compiled_and_kept(pairs)
            with mock.patch.object(thunder_scenarios, "compiled", watching):
                thunder_scenarios.answer(name)
            found[name] = _codes(pairs)
    return found


def _compiled_and_kept(pairs: list[Pair]) -> Callable[..., Any]:
    """The scenarios' `compiled`, with a transform that keeps what it was given and what it made of it."""
    compiled = thunder_scenarios.compiled

    def keeping(function: Any, transform: Any = thunder_scenarios.CUDAGraphTransform, **options: Any) -> Any:
        class Keeping(transform):  # type: ignore[misc]
            def transform_trace_post_optimization(self, trace: TraceCtx, **kwargs: Any) -> TraceCtx:
                before = copy_trace(trace)
                after: TraceCtx = super().transform_trace_post_optimization(trace, **kwargs)
                pairs.append((before, after))
                return after

        return compiled(function, Keeping, **options)

    return keeping


def _codes(pairs: list[Pair]) -> set[str]:
    codes: set[str] = set()
    forward: Pair | None = None
    for pair in pairs:
        backward = TraceTag.BACKWARD in pair[0].tags
        report = verify_pair(forward=forward, backward=pair) if backward and forward else verify(*pair)
        codes |= {found.code for found in report.diagnostics if found.severity is not Severity.NOTE}
        forward = None if backward else pair
    return codes


@pytest.mark.parametrize("name", SHOWN)
def test_fault_is_named_as_the_gpu_showed_it(name: str, verdicts: dict[str, set[str]]) -> None:
    """The fault that the GPU showed has its code among those that the traces alone get."""
    code, shows = SHOWN[name]
    assert shows(json.loads(GOLDEN.read_text())["n"][name])
    assert code in verdicts[name]


def test_the_page_has_the_table() -> None:
    """The documentation lists each scenario with its code, and no other."""
    rows = re.findall(r"^\| `([abc]\d+[a-z]?_\w+)` \| (CG\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(rows) == {name: code for name, (code, _) in SHOWN.items()}


def test_at_least_eight_codes(verdicts: dict[str, set[str]]) -> None:
    """Over all scenarios the traces alone get at least eight codes, and each of them showed on the GPU."""
    codes = set().union(*verdicts.values())
    assert len(codes) >= 8
    assert codes == {code for code, _ in SHOWN.values()}


def test_nothing_else_is_called_a_fault(verdicts: dict[str, set[str]]) -> None:
    """Scenarios that ran right on the GPU get codes of risks only."""
    assert {name: codes - RISKS for name, codes in verdicts.items() if name not in SHOWN and codes - RISKS} == {}
