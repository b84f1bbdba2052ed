"""The transform beside others, in any order, and the switches that turn it off."""

from __future__ import annotations

from typing import Any

from cgverify import CUDAGraphTransform
from tests.faults.pairs import CALLS, Pair, assert_same, gradients, operator, randn

import pytest
import thunder
import torch
from thunder.core.proxies import TensorProxy
from thunder.core.transform_common import Transform
from thunder.dev_utils.nvtx_profile_transform import NvtxProfileTransform
from thunder.transforms.cudagraph import CUDAGraphTransform as ThundersOwn
from thunder.transforms.prune_prologue_checks import PrunePrologueChecks
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.usefixtures("cuda")


class Relabelled(Transform):
    """A transform of execution traces that copies the trace and changes nothing."""

    def transform_trace_post_optimization(self, computation_trace: Any, **kwargs: Any) -> Any:
        copied = thunder.core.trace.from_trace(computation_trace)
        copied.bound_symbols = list(computation_trace.bound_symbols)
        return copied


@pytest.mark.parametrize(
    ("make", "ours_first"),
    [
        *((make, ours_first) for make in (Relabelled, NvtxProfileTransform) for ours_first in (True, False)),
        (PrunePrologueChecks, True),
        (CUDAGraphTransform, True),
    ],
)
def test_beside_another_transform(make: type[Transform], ours_first: bool) -> None:
    """Training beside a transform that copies, annotates, prunes or graphs gives the numbers of that one alone."""
    ours, other = CUDAGraphTransform(), make()
    module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5)).to("cuda")
    transforms = [ours, other] if ours_first else [other, ours]
    yardstick = [] if make is CUDAGraphTransform else [make()]
    graphed, plain = thunder.jit(module, transforms=transforms), thunder.jit(module, transforms=yardstick)
    for seed in range(CALLS):
        outcomes = []
        for jitted in (graphed, plain):
            torch.manual_seed(seed)
            y = jitted(randn(2, 3))
            y.square().sum().backward()
            outcomes.append((y.detach(), gradients(jitted), torch.cuda.get_rng_state()))
        assert_same(*outcomes)
    graphs = [t.stats() for t in transforms if isinstance(t, CUDAGraphTransform)]
    assert sum(stats.replays for stats in graphs) >= 2 * (CALLS - 1)


@pytest.mark.parametrize("ours_first", [True, False])
def test_beside_thunders_own_graphs(ours_first: bool) -> None:
    """With Thunder's own graph transform before or after, what a call returns is right when it returns."""
    ours = CUDAGraphTransform()
    transforms = [ours, ThundersOwn()] if ours_first else [ThundersOwn(), ours]

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ w) * 2, -1).sum(0)

    graphed, plain = thunder.jit(fn, transforms=transforms), thunder.jit(fn)
    _ = randn(3, 3) @ randn(3, 3)
    for _ in range(CALLS):
        x, w = randn(4, 3), randn(3, 3)
        assert_same(graphed(x, w), plain(x, w))


def test_beside_another_executor() -> None:
    """An op of another executor, unknown here, is left out, and what lies around it is graphed."""

    def private(a: torch.Tensor) -> torch.Tensor:
        return a * 2 + 1

    symbol, jit = operator(private, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: symbol(torch.relu(x)).sin() * 2, jit=jit)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4),), seed)
    assert list(pair.left_out) == ["private"]
    pair.assert_graphed()


def test_one_transform_over_functions_with_and_without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function compiled under `CGVERIFY_DISABLE=1` stays un-graphed, one compiled before keeps its graphs."""
    transform = CUDAGraphTransform()
    graphed = Pair(lambda x: functional.dropout(x, 0.5), transform=transform)
    for seed in range(CALLS):
        graphed.agree(lambda: (randn(4),), seed)
    monkeypatch.setenv("CGVERIFY_DISABLE", "1")
    off = Pair(lambda x: functional.dropout(x, 0.5), transform=transform)
    for seed in range(CALLS):
        graphed.agree(lambda: (randn(4),), seed)
        off.agree(lambda: (randn(4),), seed)
    assert transform.stats().captures == 1 and len(transform.report().plans) == 1
    assert "CUDAGraph" not in str(thunder.last_traces(off.graphed)[-1])
