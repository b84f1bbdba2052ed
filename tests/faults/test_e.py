"""Group E: streams, devices and threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from cgverify import CUDAGraphTransform
from cgverify.runtime.guards import Refusal
from tests.builders import TraceBuilder
from tests.faults.pairs import CALLS, Pair, assert_same, gradients, operator, randn, warnings_of_the_transform

import pytest
import torch
from thunder.core.proxies import TensorProxy
from torch import nn

pytestmark = pytest.mark.usefixtures("cuda")

SECONDS = 60
"""How long threads may take before a test calls them stuck."""


def run_in_threads(cuda: Any, works: list[Callable[[], None]]) -> None:
    """Runs each in a thread of its own, in the emulation too; raises the first error."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            with contextlib.nullcontext() if cuda is None else cuda.in_thread():
                work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def two_devices() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")


def test_E01_call_from_a_fresh_thread(cuda: Any) -> None:
    """A thread that never used the device captures and replays on the device of the tensors."""
    pair = Pair(lambda x: (x * 2).sin() + 1)

    def work() -> None:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(8),), seed)

    run_in_threads(cuda, [work])
    pair.assert_graphed(captures=1)


@pytest.mark.gpu
def test_E01_current_device_is_another() -> None:
    """With another device current, or one that changes from call to call, work stays on the device of the tensors."""
    two_devices()
    pair = Pair(lambda x: (x * 2).sin() + 1)
    for seed in range(2 * CALLS):
        with torch.cuda.device(seed % 2):
            pair.agree(lambda: (torch.randn(8, device="cuda:0"),), seed)
    pair.assert_graphed(captures=1)


def test_E02_region_on_two_devices() -> None:
    """Work on two devices lands in a region per device, and a copy from one to the other in none."""
    build = TraceBuilder("x:cuda:0", "y:cuda:1")
    a, b = build.op("mul", build["x"], 2.0), build.op("mul", build["y"], 3.0)
    moved = build.op("to", a, b.device)
    transform = CUDAGraphTransform()
    transform.rewrite(build.done(a, build.op("add", b, 1.0), moved))
    plan = transform.report().plans[0]
    assert sorted(region.device for region in plan.regions) == ["cuda:0", "cuda:1"]
    assert [left.symbol for left in plan.left_out] == ["to"]
    assert plan.left_out[0].reason.startswith("works on two devices")


@pytest.mark.gpu
def test_E02_two_devices_at_once() -> None:
    """A function on two devices replays a graph on each, and copies between them come out right."""
    two_devices()
    pair = Pair(lambda x, y: (x * 2 + 1, (y * 3).sin(), (x.sin() * 2).to(y.device) + y))
    for seed in range(CALLS):
        pair.agree(lambda: (torch.randn(8, device="cuda:0"), torch.randn(8, device="cuda:1")), seed)
    pair.assert_graphed()
    assert pair.transform.stats().captures >= 2


@pytest.mark.parametrize("vouched", [False, True])
def test_E03_kernel_on_another_stream(vouched: bool) -> None:
    """An op that launches where it likes runs un-graphed; vouched for, `check="first"` finds what replays miss."""
    elsewhere = torch.cuda.Stream()

    def stray(a: torch.Tensor) -> torch.Tensor:
        capturing = torch.cuda.is_current_stream_capturing()
        if not capturing:
            elsewhere.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(elsewhere):
            result = a * 2
        if not capturing:
            torch.cuda.current_stream().wait_stream(elsewhere)
        return result

    symbol, jit = operator(stray, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: symbol(x + 1) + 1, jit=jit, capturable={"stray"} if vouched else None, check="first")
    with warnings_of_the_transform() as said:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(64),), seed)
    assert pair.ungraphed(Refusal.CHECK_FAILED) == (CALLS - 2 if vouched else 0)
    assert len(said) == vouched


def test_E04_input_from_another_stream() -> None:
    """An argument made on a side stream, for which the caller waits, is what the graph reads."""
    pair = Pair(lambda x, y: (x @ y).sin() + x)
    side = torch.cuda.Stream()

    def make() -> tuple[torch.Tensor, ...]:
        with torch.cuda.stream(side):
            made = randn(64, 64) @ randn(64, 64)
        torch.cuda.current_stream().wait_stream(side)
        return made, randn(64, 64)

    for seed in range(CALLS + 4):
        pair.agree(make, seed)
    pair.assert_graphed(captures=1)


def test_E05_calls_on_alternating_streams() -> None:
    """Each call runs on the caller's stream, after what that stream waits for; results are ready there."""
    # Thunder's split autograd nodes do not order a backward after the stream of its cotangent
    pair = Pair(nn.Sequential(nn.Linear(16, 16), nn.Tanh()).to("cuda"), jit={"thunderfx_disable_split_autograd": True})
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]

    def act(jitted: Any) -> Any:
        x = randn(8, 16).requires_grad_()
        y = x
        for before, stream in zip([streams[-1], *streams], streams, strict=False):
            stream.wait_stream(before)
            with torch.cuda.stream(stream):
                y = jitted(y * 2)
        streams[0].wait_stream(streams[-1])
        y.square().sum().backward()
        torch.cuda.synchronize()
        return y.detach(), gradients(jitted, x)

    for seed in range(CALLS):
        pair.do(act, seed)
    pair.assert_graphed(captures=2)


def test_E06_threads_and_streams_at_once(cuda: Any) -> None:
    """Eight threads on three streams call one function, and train modules, with numbers of their own."""
    pair = Pair(lambda x, s: (x * 2).sin() + s)
    nets = [Pair(nn.Linear(4, 4).to("cuda"), transform=pair.transform) for _ in range(2)]
    sides = [torch.cuda.Stream() for _ in range(3)]
    for size in (8, 16):
        pair.agree(lambda size=size: (randn(size), randn(1)))
    for net in nets:
        net.do(lambda jitted: jitted(randn(2, 4)))
    torch.cuda.synchronize()
    locks = [threading.Lock() for _ in nets]  # of a module's gradients, which are the caller's to share

    def work(number: int) -> None:
        stream = sides[number % 3]
        with torch.cuda.stream(stream):
            for call in range(6):
                x = torch.full((8 + 8 * (number % 2),), number + call / 8, device="cuda")
                s = torch.full((1,), float(number), device="cuda")
                result, expected = pair.graphed(x, s), (x * 2).sin() + s
                net, lock = nets[number % 2], locks[number % 2]
                with lock:
                    found = []
                    for jitted in net.sides:
                        stream.synchronize()
                        jitted(torch.full((2, 4), number + 1.0, device="cuda")).square().sum().backward()
                        found.append(gradients(jitted))
                        stream.synchronize()
                assert_same(*found)
                assert torch.equal(result, expected)

    run_in_threads(cuda, [lambda number=number: work(number) for number in range(8)])
    pair.assert_graphed()
    assert pair.transform.stats().captures == 2 + 2 * len(nets)


def test_E06_threads_that_all_capture(cuda: Any) -> None:
    """Eight threads that each meet sizes of their own for the first time capture one after the other, and are right."""
    functions = [Pair(lambda x: torch.softmax(x * 2, 0) + 1, max_graphs=2) for _ in range(4)]
    for function in functions:
        function.agree(lambda: (randn(3),))

    def work(number: int) -> None:
        function = functions[number % 4]
        with torch.cuda.stream(torch.cuda.Stream()):
            for call in range(6):
                x = torch.arange(24.0, device="cuda")[:: 1 + (number + call) % 3][:8]
                assert torch.equal(function.graphed(x[:3]), torch.softmax(x[:3] * 2, 0) + 1)

    run_in_threads(cuda, [lambda number=number: work(number) for number in range(8)])
    assert all(function.transform.stats().graphs <= 2 for function in functions)
    assert all(function.transform.stats().replays > 0 for function in functions)


def test_E07_another_thread_uses_the_device(cuda: Any) -> None:
    """A thread that pins memory and asks events all the while disturbs no capture, and meets no error itself."""
    done = threading.Event()
    pair = Pair(lambda x: (x * 2).sin() + 1)
    rounds: list[int] = []

    def disturb() -> None:
        event = torch.cuda.Event()
        while not done.is_set() or not rounds:
            torch.empty(64, pin_memory=True)
            event.record()
            event.query()
            rounds.append(1)

    def work() -> None:
        try:
            for size in range(8):
                for _ in range(3):
                    pair.agree(lambda size=size: (randn(40)[size : size + 24].view(4, 6)[:, : size % 4 + 1],), size)
        finally:
            done.set()

    run_in_threads(cuda, [disturb, work])
    pair.assert_graphed()


@pytest.mark.parametrize("vouched", [False, True])
def test_E08_side_stream_that_is_not_joined(vouched: bool) -> None:
    """An op that forks a stream and does not join it runs un-graphed; vouched for, its capture fails."""
    side = torch.cuda.Stream()

    def fork(a: torch.Tensor) -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            a.sin()
        return a * 2

    symbol, jit = operator(fork, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: symbol(x + 1) + 1, jit=jit, capturable={"fork"} if vouched else None)
    with warnings_of_the_transform() as said:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(8),), seed)
    torch.cuda.synchronize()
    assert pair.ungraphed(Refusal.CAPTURE_FAILED) == (CALLS - 1 if vouched else 0)
    assert len(said) == vouched
