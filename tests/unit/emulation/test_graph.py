"""CUDAGraph, streams and events of the emulated device: errors, poison, strict mode, forks and joins."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

from cgverify.emulation import CaptureError, EmulatedCUDA, HostCopyError, UseAfterFree
from tests.golden.probes.asking import capture, filled

import pytest
import torch


@pytest.fixture
def cuda() -> Iterator[EmulatedCUDA]:
    with EmulatedCUDA() as device:
        yield device


# Errors


def test_error_classes(cuda: EmulatedCUDA) -> None:
    """Forbidden calls raise torch's AcceleratorError, refused copies a plain RuntimeError, as on a GPU."""
    assert issubclass(CaptureError, torch.AcceleratorError)
    assert issubclass(HostCopyError, RuntimeError)
    assert not issubclass(HostCopyError, torch.AcceleratorError)
    assert issubclass(UseAfterFree, RuntimeError)


def test_a_sync_invalidates_the_capture(cuda: EmulatedCUDA) -> None:
    """The forbidden call says 900, later launches and the end of the capture say 901, and the graph stays empty."""
    x, graph = filled(), torch.cuda.CUDAGraph()
    with pytest.raises(CaptureError, match="failed due to a previous error"), torch.cuda.graph(graph):
        with pytest.raises(CaptureError, match="operation not permitted when stream is capturing"):
            x.sum().item()
        with pytest.raises(CaptureError, match="failed due to a previous error"):
            x + 1
    with pytest.raises(RuntimeError, match="replay without a preceding successful capture"):
        graph.replay()


def test_a_pageable_copy_leaves_the_capture_valid(cuda: EmulatedCUDA) -> None:
    """A refused host copy does not end the capture."""
    x = filled(4, 3.0)

    def body() -> torch.Tensor:
        with pytest.raises(HostCopyError, match="unless the CPU tensor is pinned"):
            x.cpu()
        return x + 1

    graph, y = capture(body)
    graph.replay()
    assert y.tolist() == [4.0] * 4


def test_only_one_capture_at_a_time(cuda: EmulatedCUDA) -> None:
    """A second capture on the capturing stream, and one on another stream, are refused; the first goes on."""
    x, graph = filled(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with pytest.raises(RuntimeError, match="Cannot register the state during capturing stage"):
            torch.cuda.CUDAGraph().capture_begin()
        with (
            torch.cuda.stream(torch.cuda.Stream()),
            pytest.raises(RuntimeError, match="CUDA graphs must be captured one at a time"),
        ):
            torch.cuda.CUDAGraph().capture_begin()
        y = x + 1
    graph.replay()
    assert y.tolist() == [1.0] * 4


def test_misuse_of_begin_and_end(cuda: EmulatedCUDA) -> None:
    """An end without a begin, an end on another stream and an unknown error mode are refused."""
    with pytest.raises(CaptureError, match="the operation cannot be performed in the present state"):
        torch.cuda.CUDAGraph().capture_end()
    with pytest.raises(RuntimeError, match="Unknown capture error mode"):
        torch.cuda.CUDAGraph().capture_begin(capture_error_mode="strict")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin(capture_error_mode="thread_local")
        filled()
        with (
            torch.cuda.stream(torch.cuda.Stream()),
            pytest.raises(RuntimeError, match="Capture must end on the same stream it began on"),
        ):
            graph.capture_end()
        graph.capture_end()


def test_a_replay_inside_a_capture_is_refused(cuda: EmulatedCUDA) -> None:
    """Graphs do not nest."""
    x = filled()
    inner, _ = capture(lambda: x + 1)

    def body() -> torch.Tensor:
        with pytest.raises(RuntimeError, match="Cannot prepare for replay during capturing stage"):
            inner.replay()
        return x + 1

    capture(body)


def test_pool_and_reset(cuda: EmulatedCUDA) -> None:
    """pool() needs a captured graph; reset() drops it, and the instance can capture again."""
    graph, x = torch.cuda.CUDAGraph(), filled()
    with pytest.raises(RuntimeError, match="pool"):
        graph.pool()
    with torch.cuda.graph(graph):
        x + 1
    assert graph.pool()[0] > 0
    graph.reset()
    with pytest.raises(RuntimeError, match="preceding successful capture"):
        graph.replay()
    with torch.cuda.graph(graph, pool=torch.cuda.graph_pool_handle()):
        y = x + 2
    assert graph.pool()[1] > 0
    graph.replay()
    assert y.tolist() == [2.0] * 4


def test_a_pool_whose_last_graph_is_gone_is_refused(cuda: EmulatedCUDA) -> None:
    """Its handle serves no further capture while its memory is not given back, as on a GPU."""
    x, handle = filled(), torch.cuda.graph_pool_handle()
    graph, result = capture(lambda: x + 1, pool=handle)
    del result
    graph.reset()
    with torch.cuda.stream(torch.cuda.Stream()):
        with pytest.raises(RuntimeError, match="use_count > 0 INTERNAL ASSERT FAILED"):
            torch.cuda.CUDAGraph().capture_begin(pool=handle)
        torch.cuda.empty_cache()
        graph.capture_begin(pool=handle)
        x + 1
        graph.capture_end()
    assert graph.pool() == handle


def test_an_empty_capture_warns(cuda: EmulatedCUDA) -> None:
    """Torch's warning about an empty graph is given."""
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"):
        capture(lambda: None)


def test_work_on_no_elements_launches_nothing(cuda: EmulatedCUDA) -> None:
    """A capture of ops without elements is empty, as CUDA has no launch without threads; a sum of nothing is one."""
    nothing = torch.ones(0, 3, device="cuda")
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"):
        capture(lambda: nothing * 2)
    _, total = capture(lambda: nothing.sum())
    assert total.shape == ()


def test_mixed_devices_are_refused(cuda: EmulatedCUDA) -> None:
    """A CPU tensor with dimensions is no argument for a device op."""
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
        filled() + torch.ones(4)


# Poison and strict mode


def test_poison_shows_a_read_of_unwritten_memory() -> None:
    """With poison=True uninitialized and freed memory is NaN, at replay too."""
    with EmulatedCUDA(poison=True):
        assert torch.empty(4, device="cuda").isnan().all()
        x = filled(4, 1.0)
        graph, (scratch, y) = capture(lambda: (torch.empty(4, device="cuda"), x + 1))
        scratch.fill_(5.0)
        graph.replay()
        assert scratch.isnan().all()
        assert y.tolist() == [2.0] * 4
        doomed = [filled(4, 1.0)]
        stale, total = capture(lambda: doomed[0] + 0)
        doomed.clear()
        stale.replay()
        assert total.isnan().all()


def test_poison_keeps_what_a_graph_needs() -> None:
    """Poisoning happens in program order: a block that is freed and taken again still has its last value when read."""
    with EmulatedCUDA(poison=True):
        x = filled(4, 1.0)
        graph, y = capture(lambda: ((x + 1) * 2 + (x + 3)).sum())
        for _ in range(2):
            graph.replay()
            assert y.item() == 4 * 8.0


@pytest.mark.parametrize("use", [lambda t: t + 0, lambda t: t.add_(1)])
def test_strict_refuses_freed_inputs(use: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """With strict=True a replay on a freed tensor's memory raises, also when the memory has a new owner."""
    with EmulatedCUDA(strict=True):
        doomed = [filled(4, 1.0)]
        graph, _kept = capture(lambda: use(doomed[0]).shape)
        graph.replay()
        doomed.clear()
        with pytest.raises(UseAfterFree, match=r"at 0x[0-9a-f]+ that was freed after the capture \(aten::add"):
            graph.replay()
        _successor = filled(4, 2.0)
        with pytest.raises(UseAfterFree):
            graph.replay()


def test_strict_allows_the_graphs_own_pool() -> None:
    """Memory of the graph's pool may be freed: forward and backward graphs share it so."""
    with EmulatedCUDA(strict=True):
        x = filled(4, 2.0)
        saved: list[torch.Tensor] = []
        first, _ = capture(lambda: saved.append(x * 3))
        second, y = capture(lambda: saved[0] + 1, pool=first.pool())
        saved.clear()
        first.replay()
        second.replay()
        assert y.tolist() == [7.0] * 4


def test_check_input_liveness(cuda: EmulatedCUDA) -> None:
    """Torch's own check_input_liveness=True refuses a freed input without strict."""
    doomed, graph = [filled(4, 1.0)], torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin(check_input_liveness=True)
        doomed[0] + 0
        graph.capture_end()
    graph.replay()
    doomed.clear()
    with pytest.raises(UseAfterFree):
        graph.replay()


# Memory


def test_dropping_a_graph_frees_its_pool(cuda: EmulatedCUDA) -> None:
    """With graph and results gone, emptying the cache gives the pool's memory back."""
    x = filled()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    graph, y = capture(lambda: x + 1)
    assert torch.cuda.memory_reserved() == before + (2 << 20)
    del graph, y
    gc.collect()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == before


def test_debug_dump_lists_launches(cuda: EmulatedCUDA, tmp_path: Path) -> None:
    """One line per launch: op, addresses and shapes of arguments, and of the result."""
    x = filled()
    graph, y = capture(lambda: x.mul(2.0))
    graph.debug_dump(str(tmp_path / "graph.txt"))
    expected = f"aten.mul.Tensor({x.data_ptr():#x}[4], 2.0) -> {y.data_ptr():#x}[4]\n"
    assert (tmp_path / "graph.txt").read_text() == expected


# Streams and events


def test_work_on_a_stream_outside_the_capture_runs_at_once(cuda: EmulatedCUDA) -> None:
    """Only streams that joined the capture are captured."""
    x, other = filled(), torch.cuda.Stream()

    def body() -> torch.Tensor:
        with torch.cuda.stream(other):
            assert not torch.cuda.is_current_stream_capturing()
            x.add_(1)
        assert torch.cuda.is_current_stream_capturing()
        return x * 2

    graph, y = capture(body)
    assert x.tolist() == [1.0] * 4
    graph.replay()
    assert (x.tolist(), y.tolist()) == ([1.0] * 4, [2.0] * 4)


def test_a_forked_stream_is_captured_and_must_join(cuda: EmulatedCUDA) -> None:
    """Work on a stream that waits for the capturing one is captured; the capture fails unless it is waited for."""
    x, side = filled(), torch.cuda.Stream()

    def body(joins: bool) -> torch.Tensor:
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = x + 1
        if joins:
            main.wait_stream(side)
        return y

    graph, y = capture(lambda: body(joins=True))
    graph.replay()
    assert y.tolist() == [1.0] * 4
    with pytest.raises(CaptureError, match="capturing stream has unjoined work"):
        capture(lambda: body(joins=False))


def test_a_fork_may_join_through_another_stream(cuda: EmulatedCUDA) -> None:
    """What the first stream waits for counts through other streams, and only up to the event."""
    x, one, other = filled(), torch.cuda.Stream(), torch.cuda.Stream()

    def body(works_on: bool) -> torch.Tensor:
        main = torch.cuda.current_stream()
        one.wait_stream(main)
        with torch.cuda.stream(one):
            y = x + 1
        other.wait_stream(one)
        main.wait_stream(other)
        if works_on:
            with torch.cuda.stream(one):
                x + 2
        return y

    graph, y = capture(lambda: body(works_on=False))
    graph.replay()
    assert y.tolist() == [1.0] * 4
    with pytest.raises(CaptureError, match="unjoined work"):
        capture(lambda: body(works_on=True))


def test_errors_of_in_place_ops_show_in_the_capture(cuda: EmulatedCUDA) -> None:
    """An in-place op whose shapes do not match, or whose arguments overlap, fails when it is captured."""
    x = filled()

    def body() -> torch.Tensor:
        with pytest.raises(RuntimeError, match="must match the size"):
            x.add_(filled(3))
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            x[1:].copy_(x[:-1])
        x.view(torch.int32).floor_divide_(x.to(torch.int32) + 1)
        return x + 1

    graph, y = capture(body)
    graph.replay()
    assert y.tolist() == [1.0] * 4


def test_a_capture_may_not_wait_for_uncaptured_work(cuda: EmulatedCUDA) -> None:
    """Waiting in a capture for an event recorded outside it invalidates the capture."""
    x, side = filled(), torch.cuda.Stream()

    def body() -> torch.Tensor:
        with pytest.raises(CaptureError, match="dependency created on uncaptured work in another stream"):
            torch.cuda.current_stream().wait_stream(side)
        return x

    with pytest.raises(CaptureError, match="previous error during capture"):
        capture(body)


def test_streams(cuda: EmulatedCUDA) -> None:
    """Streams are equal by identity of the stream, 32 are handed out in turn, and contexts nest."""
    streams = [torch.cuda.Stream() for _ in range(33)]
    assert streams[32] == streams[0]
    assert len(set(streams)) == 32
    default = torch.cuda.default_stream()
    assert torch.cuda.current_stream() == default
    with torch.cuda.stream(streams[1]):
        with torch.cuda.stream(streams[2]):
            assert torch.cuda.current_stream() == streams[2]
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == streams[1]
    with torch.cuda.StreamContext(streams[3]):
        assert torch.cuda.current_stream() == streams[3]
    assert torch.cuda.current_stream() == default
    torch.cuda.set_stream(streams[4])
    assert torch.cuda.current_stream().cuda_stream == streams[4].cuda_stream != default.cuda_stream == 0


def test_events(cuda: EmulatedCUDA) -> None:
    """Events are done at once, and time is measured between recorded events that asked for it."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(ValueError, match="recorded"):
        start.elapsed_time(end)
    start.record()
    torch.cuda.current_stream().record_event(end)
    assert start.query()
    end.synchronize()
    assert start.elapsed_time(end) >= 0.0
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(torch.cuda.Event())
