"""The text of rewritten traces, to the letter, at each stage where Thunder hands a trace over.

Golden texts are in tests/golden/traces; only the milliseconds in the provenance line are replaced by N. On a real
device the region is compiled by torch.compile; on the emulation, which no compiler targets, the same op runs eagerly.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from cgverify import CUDAGraphTransform, cuda_graph_transform

import pytest
import thunder
import torch
from thunder.core.trace import TraceCtx
from thunder.core.transform_common import Transform

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"

pytestmark = pytest.mark.usefixtures("cuda")


def foo(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    result = x * y
    a = torch.relu(result)
    return a


def text_of(trace: TraceCtx) -> str:
    """The trace as text, without what differs from run to run: milliseconds and paths of source files."""
    text = re.sub(r"took \d+ milliseconds", "took N milliseconds", str(trace))
    return re.sub(r"# \S+/(\w+\.py:)\d+", r"# \1LINE", text) + "\n"


def assert_golden(name: str, trace: TraceCtx) -> None:
    assert text_of(trace) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(5, 5, device="cuda"), torch.randn(5, 5, device="cuda")


def test_called_by_hand_on_the_final_trace() -> None:
    """`cuda_graph_transform(thunder.last_traces(j)[-1])`: one region of one fused op, then DELs of both inputs."""
    jitted = thunder.jit(foo, executors=["torchcompile"])
    x, y = inputs()
    jitted(x, y)
    trace = cuda_graph_transform(thunder.last_traces(jitted)[-1])
    assert_golden("by_hand", trace)
    run = trace.python_callable()
    for _ in range(4):
        x, y = inputs()
        torch.testing.assert_close(run(x, y)[0], foo(x, y))


def test_inside_jit_after_optimization_and_after_unwrapping() -> None:
    """In `thunder.jit` RETURN still lists the flat arguments when the transform runs; a later pass unwraps it."""

    class Recorder(Transform):
        def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
            self.seen = computation_trace
            return computation_trace

    recorder = Recorder()
    jitted = thunder.jit(foo, executors=["torchcompile"], transforms=[CUDAGraphTransform(), recorder])
    for _ in range(4):
        x, y = inputs()
        torch.testing.assert_close(jitted(x, y), foo(x, y))
    assert_golden("inside_jit_post_optimization", recorder.seen)
    assert_golden("inside_jit_final", thunder.last_traces(jitted)[-1])


def test_item_is_outside_the_region_and_no_del_precedes_return() -> None:
    """`x.sum().item()`: the sum is a region, `item` follows it, and the region's body deletes nothing it returns."""
    transform = CUDAGraphTransform()
    jitted = thunder.jit(lambda x: x.sum().item(), transforms=[transform])
    for value in range(4):
        assert jitted(torch.full((3,), float(value), device="cuda")) == 3.0 * value
    trace = thunder.last_traces(jitted)[-1]
    assert_golden("item", trace)
    region = next(bsym for bsym in trace.bound_symbols if bsym.sym.name == "CUDAGraph0")
    source = region._call_ctx["CUDAGraph0"].source
    returned = region.output[0].name
    assert f"return ({returned},)" in source
    assert f"del {returned}" not in source


def test_forward_and_backward_by_hand() -> None:
    """Both traces of a training function, the backward one with `forward=`; its list handling stays outside."""
    jitted = thunder.jit(lambda x, w: torch.tanh(x @ w).sum())
    x, w = inputs()
    jitted(x, w.requires_grad_())
    forward = cuda_graph_transform(thunder.last_traces(jitted)[-1])
    backward = cuda_graph_transform(thunder.last_backward_traces(jitted)[-1], forward=forward)
    assert_golden("forward", forward)
    assert_golden("backward", backward)


def test_a_name_that_is_taken_is_not_given_again() -> None:
    """A second transform numbers its regions from the first free name."""
    build_input = torch.randn(4, device="cuda")
    jitted = thunder.jit(lambda x: torch.relu(x) + 1)
    jitted(build_input)
    once = cuda_graph_transform(thunder.last_traces(jitted)[-1])
    twice = cuda_graph_transform(once)
    assert twice is once  # a region is not graphed again
    names = [bsym.sym.name for bsym in twice.bound_symbols if bsym.sym.is_fusion]
    assert names == ["CUDAGraph0"]


def test_two_builds_give_the_same_text_whatever_the_hash_seed(tmp_path: Path) -> None:
    """The emitted text does not depend on PYTHONHASHSEED."""
    script = tmp_path / "build.py"
    script.write_text(
        "import re, sys\n"
        "sys.path.insert(0, '.')\n"
        "from tests.builders import TraceBuilder\n"
        "from cgverify import cuda_graph_transform\n"
        "build = TraceBuilder('x', 'y', 'z')\n"
        "a = build.op('add', build['x'], build['y'])\n"
        "n = build.op('item', build.op('sum', a, None, False, dtype=None))\n"
        "b = build.op('mul', build['z'], n)\n"
        "c = build.op('exp', b)\n"
        "text = str(cuda_graph_transform(build.done(a, c, b, n), comments=True))\n"
        "print(re.sub(r'took \\d+', 'took N', text))\n"
    )
    texts = set()
    for seed in ("0", "1", "4711"):
        done = subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        texts.add(done.stdout)
    assert len(texts) == 1
    assert "# not graphed: waits for the device to hand a value to the host" in texts.pop()
