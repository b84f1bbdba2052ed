"""Streams to capture on: a pool has them while it has graphs, whatever fails or is collected meanwhile."""

from __future__ import annotations

import gc
import warnings
from typing import Any

from cgverify import CUDAGraphTransform
from cgverify.diagnostics import UngraphedWarning
from cgverify.runtime import pool as pool_module
from cgverify.runtime.body import without_autocast
from cgverify.runtime.capture_stream import CaptureStream
from cgverify.runtime.guards import Refusal, is_captured
from cgverify.runtime.pool import MOST_STREAMS, Pool
from tests.faults.pairs import CALLS, Pair, operator, randn

import pytest
import thunder
import torch
from thunder.core.proxies import TensorProxy

pytestmark = pytest.mark.usefixtures("cuda")


def jit(transform: CUDAGraphTransform, factor: float) -> Any:
    return thunder.jit(lambda x: x * factor + 1, transforms=[transform])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_graphs_that_go_in_a_capture_take_no_stream_along(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last older graph of a pool is collected around a capture: that succeeds, and the pool keeps its stream."""
    transform = CUDAGraphTransform()
    first, second = jit(transform, 2.0), jit(transform, 3.0)
    for _ in range(3):
        first(randn(4))
    second(randn(4))
    jitted = [first]
    del first
    take_turn, end = Pool.take_turn, pool_module._end_capture

    def collect() -> None:
        jitted.clear()
        gc.collect()

    def take_turn_after(self: Pool) -> None:
        collect()
        take_turn(self)

    def end_before(graph: torch.cuda.CUDAGraph) -> bool:
        is_empty = end(graph)
        collect()
        return is_empty

    if moment == "before":
        monkeypatch.setattr(Pool, "take_turn", take_turn_after)
    else:
        monkeypatch.setattr(pool_module, "_end_capture", end_before)
    x = randn(4)
    assert torch.equal(second(x), x * 3 + 1)
    pool = transform._runtime.pool("cuda:0")
    assert (transform.stats().captures, transform.stats().graphs) == (2, 1)
    assert len(pool._streams) == 1 and pool._graphs == 1


def test_a_stream_that_cannot_be_had_fails_one_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next capture of the pool gets one."""
    failing = [True]

    def make(device: torch.device) -> CaptureStream:
        if failing.pop() if failing else False:
            raise RuntimeError("no stream")
        return CaptureStream(device)

    monkeypatch.setattr(pool_module, "CaptureStream", make)
    transform = CUDAGraphTransform()
    jitted = jit(transform, 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UngraphedWarning)
        for rows in (1, 2):
            for _ in range(3):
                jitted(randn(rows, 4))
    stats = transform.stats()
    assert (stats.captures, stats.ungraphed[Refusal.CAPTURE_FAILED.value]) == (1, 2)


def test_captures_that_fail_take_few_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many fail while a pool has a graph, it keeps a few streams, and a capture after them succeeds."""
    transform = CUDAGraphTransform()
    jitted = jit(transform, 2.0)
    for _ in range(2):
        jitted(randn(1, 4))
    begin = torch.cuda.CUDAGraph.capture_begin

    def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", fail)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UngraphedWarning)
        for rows in range(2, 4 + 2 * MOST_STREAMS):
            for _ in range(2):
                jitted(randn(rows, 4))
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", begin)
    pool = transform._runtime.pool("cuda:0")
    assert len(pool._streams) == MOST_STREAMS
    x = randn(64, 4)
    jitted(x)
    assert torch.equal(jitted(x), x * 2 + 1)
    assert transform.stats().captures == 2


def test_a_body_that_switches_autocast_on_does_so_for_itself() -> None:
    """Thunder's decorator around a fusion brings back what was when it was made; the caller's setting stays."""

    def body(x: torch.Tensor) -> list[torch.Tensor]:
        assert not torch.is_autocast_enabled("cuda")
        torch.set_autocast_enabled("cuda", True)
        return [x]

    run = without_autocast(body)
    run(randn(2))
    assert not torch.is_autocast_enabled("cuda")
    with torch.autocast("cuda", torch.bfloat16):
        run(randn(2))
        assert torch.is_autocast_enabled("cuda")


def test_an_op_of_another_executor_reads_all_switches() -> None:
    """One that is called like a pointwise op, and vouched for, may be a product: TF32 gets it another graph."""

    def mean(x: torch.Tensor) -> torch.Tensor:
        return x @ x

    symbol, options = operator(mean, lambda x: TensorProxy(like=x))
    pair = Pair(lambda x: symbol(x) + 1, jit=options, capturable={"mean"})
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        for tf32 in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            for seed in range(CALLS):
                pair.agree(lambda: (randn(4, 4),), seed)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    pair.assert_graphed(captures=2)


def test_a_device_is_captured_while_its_stream_is() -> None:
    """Inside a capture, and not before or after it."""
    x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
    seen = [is_captured("cuda:0")]
    with torch.cuda.graph(graph):
        x.add_(1)
        seen.append(is_captured("cuda:0"))
    assert [*seen, is_captured("cuda:0")] == [False, True, False]
