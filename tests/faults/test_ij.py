"""Groups I and J: communication, profilers, and the last bits."""

from __future__ import annotations

from cgverify.ir import view_trace
from cgverify.transform.effects import compute_effects
from cgverify.transform.tables import CAPTURABLE, COLLECTIVES
from tests.builders import TraceBuilder
from tests.faults.pairs import CALLS, Pair, randn

import pytest
import torch
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol
from thunder.core.trace import tracectx
from thunder.executors import torchex

GROUPS = {
    "I01": ("torch_all_reduce_prim_impl", "torch_all_gather_prim_impl", "torch_reduce_scatter_prim_impl"),
    "I02": ("torch_wait_prim_impl",),
}


@pytest.mark.parametrize(("fault", "name"), [(fault, name) for fault, names in GROUPS.items() for name in names])
def test_collectives_and_waits_stay_out_of_regions(fault: str, name: str) -> None:
    """Each rank decides alone, so what ranks do together is in no graph, even if somebody vouches for it."""
    assert name in COLLECTIVES and name in torchex.ex.opmap and COLLECTIVES.isdisjoint(CAPTURABLE)
    build = TraceBuilder("x")
    with tracectx(build.trace):
        symbol = Symbol(name, meta=lambda a: a, id=name, executor=torchex.ex)
        result = TensorProxy("r", like=build["x"])
        build.trace.bound_symbols.append(symbol.bind(build["x"], output=result))
    view = view_trace(build.done(build.op("mul", result, 2.0)))
    reasons = {op.id: effect.barrier for op, effect in zip(view.ops, compute_effects(view, {name}), strict=True)}
    assert reasons[name] == "communicates between devices"
    assert reasons["mul"] is None


def test_J01_profiler_around_replays(cuda: object) -> None:
    """Replays before, under and after a profiler are right."""
    pair = Pair(lambda x: (x * 2).sin() + 1)
    for seed in range(2 * CALLS):
        if seed % 2:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
                pair.agree(lambda: (randn(8),), seed)
        else:
            pair.agree(lambda: (randn(8),), seed)
    pair.assert_graphed(captures=1)


def test_J02_replays_differ_in_the_last_bits(cuda: object) -> None:
    """Ten replays of products, reductions and softmax on the same argument, back to back, are equal to the bit."""
    pair = Pair(lambda x: (x @ x.t(), x.sum(), torch.softmax(x, -1)), check="first")
    x = randn(33, 17)
    first = pair.agree(lambda: (x,))
    results = [pair.graphed(x) for _ in range(10)]
    for result in results:
        assert all(torch.equal(one, other) for one, other in zip(result, first, strict=True))
    pair.assert_graphed(captures=1)
