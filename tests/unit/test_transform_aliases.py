"""Which values the transform believes may share memory."""

from __future__ import annotations

from cgverify import cuda_graph_transform
from cgverify.ir import view_trace
from cgverify.transform.aliases import compute_aliases
from cgverify.transform.effects import compute_effects
from tests.builders import TraceBuilder

import pytest
import torch


@pytest.mark.parametrize(("dtype", "shared"), [(torch.float32, True), (torch.float64, False)])
def test_a_conversion_shares_memory_only_if_it_converts_nothing(dtype: torch.dtype, shared: bool) -> None:
    """`to` may return its argument where the dtype stays, and makes a copy where it changes."""
    build = TraceBuilder("x")
    converted = build.op("to", build["x"], dtype)
    view = view_trace(build.done(converted))
    sets = compute_aliases(view, compute_effects(view))
    assert sets.may_alias("x", converted.name) == shared


def test_a_write_to_a_converted_copy_is_no_write_to_its_source() -> None:
    """The plan calls the source read only, and the verifier agrees."""
    build = TraceBuilder("x")
    converted = build.op("to", build["x"], torch.float64)
    build.op("copy_", build.op("round", converted), converted, grad_enabled=False)
    (region,) = [op for op in view_trace(cuda_graph_transform(build.done())).ops if op.is_fusion]
    plan = region.bsym._call_ctx[region.name].plan
    assert [(entry.name, entry.written) for entry in plan.inputs] == [("x", False)]
