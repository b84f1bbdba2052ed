"""Which regions look at torch's switches for products, convolutions and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cgverify import CUDAGraphTransform
from cgverify.runtime.region import GraphedRegion
from cgverify.runtime.switches import read_all_switches, read_common_switches
from tests.faults.pairs import CALLS, Pair, randn

import pytest
import thunder
import torch
from torch.nn import functional

pytestmark = pytest.mark.usefixtures("cuda")


def read_by(fn: Callable[..., Any], *args: torch.Tensor, **jit: Any) -> set[Any]:
    """What the regions of the function read before each replay."""
    jitted = thunder.jit(fn, transforms=[CUDAGraphTransform()], **jit)
    jitted(*args)
    bsyms = thunder.last_traces(jitted)[-1].bound_symbols
    regions = [value for bsym in bsyms for value in (bsym._call_ctx or {}).values() if isinstance(value, GraphedRegion)]
    assert regions
    return {region._read_switches for region in regions}


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x @ x + 1,
        lambda x: functional.linear(x, x).sin(),
        lambda x: torch.einsum("ij,jk->ik", x, x) + 1,
        lambda x: functional.layer_norm(x, (4,)) + 1,
        lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]) + 1,
        lambda x: functional.batch_norm(x, None, None, training=True) + 1,
    ],
    ids=["matmul", "linear", "einsum", "layer_norm", "attention", "batch_norm"],
)
@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
def test_whatever_a_switch_may_choose_reads_all(fn: Callable[..., Any]) -> None:
    """Products, normalisation, attention: one such op in a region, and the region reads every switch."""
    assert read_by(fn, randn(4, 4)) == {read_all_switches}


@pytest.mark.parametrize("executor", ["torch", "torchcompile"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x.sin() * 2 + 1).to(torch.float64),
        lambda x: torch.softmax(x.unsqueeze(0).t(), -1).sum(0),
        lambda x: torch.ones_like(x) + x.reshape(-1),
    ],
    ids=["pointwise", "reductions", "factories"],
)
def test_pointwise_ops_and_reductions_read_the_common_ones(
    fn: Callable[..., Any], executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their kernels have no alternatives, but for what deterministic algorithms ask; nor has what is made of them."""
    monkeypatch.setattr(torch, "compile", lambda fn, **options: fn)
    assert read_by(fn, randn(4), executors=[executor]) == {read_common_switches}


def test_a_fused_product_reads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is fused with a product is chosen like the product."""
    monkeypatch.setattr(torch, "compile", lambda fn, **options: fn)
    assert read_by(lambda x: (x @ x).sin() + 1, randn(4, 4), executors=["torchcompile"]) == {read_all_switches}


def test_switches_that_choose_nothing_cost_no_capture() -> None:
    """A pointwise region keeps its graph when TF32 changes, and gets another under deterministic algorithms."""
    pair = Pair(lambda x: x.sin() * 2 + 1)
    for seed in range(CALLS):
        for tf32 in (True, False):
            torch.backends.cuda.matmul.allow_tf32, before = tf32, torch.backends.cuda.matmul.allow_tf32
            pair.agree(lambda: (randn(4, 4),), seed)
            torch.backends.cuda.matmul.allow_tf32 = before
    pair.assert_graphed(captures=1)
    torch.use_deterministic_algorithms(True)
    try:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(4, 4),), seed)
    finally:
        torch.use_deterministic_algorithms(False)
    pair.assert_graphed(captures=2)
