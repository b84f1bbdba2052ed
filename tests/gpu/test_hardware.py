"""What only hardware shows: alignment, streams and threads at once, compiled kernels, torch's own generator."""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict, deque
from typing import Any

from cgverify import CUDAGraphTransform
from cgverify.fuzzing.mutants import IgnoredAlignment
from cgverify.runtime.capture_stream import RESTING
from cgverify.runtime.guards import Refusal

import pytest
import thunder
import torch
from thunder.core.transform_common import Transform
from torch.nn import functional

pytestmark = pytest.mark.gpu

OFFSETS = (0, 1, 2, 3, 4, 5)


def sums(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(), x.sum(0), torch.softmax(x, 0), x.var(), functional.layer_norm(x, x.shape)


def differs_at_some_offset(transform: Transform) -> bool:
    """Whether reductions of the same values at shifted addresses differ from Thunder's own in some bit."""
    graphed, plain = thunder.jit(sums, transforms=[transform]), thunder.jit(sums)
    base = torch.randn(100_003, device="cuda")
    for offset in OFFSETS:
        x = base[offset : offset + 99_328]
        for _ in range(4):
            if not all(map(torch.equal, graphed(x), plain(x))):
                return True
    return False


def test_reductions_at_any_alignment_are_bit_equal() -> None:
    """Static buffers keep the caller's alignment, so kernels sum in the same order."""
    assert not differs_at_some_offset(CUDAGraphTransform())


def test_an_ignored_alignment_would_show() -> None:
    """The same check fails for a runtime whose buffers are always aligned: the guard is needed."""
    assert differs_at_some_offset(IgnoredAlignment())


def test_threads_and_streams_at_once() -> None:
    """Eight threads, each on a stream of its own, call one jitted function with four shapes; every result is right."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ y) * 2 + torch.sin(x)

    transform = CUDAGraphTransform(max_graphs=3)
    graphed, plain = thunder.jit(fn, transforms=[transform]), thunder.jit(fn)
    x, y = torch.randn(2, 32, 32, device="cuda")
    graphed(x, y), plain(x, y)
    wrong: list[str] = []

    def work(number: int) -> None:
        generator = torch.Generator(device="cuda").manual_seed(number)
        with torch.cuda.stream(torch.cuda.Stream()):
            for call in range(40):
                n = 16 * (1 + (number + call) % 4)
                a = torch.randn(n, n, device="cuda", generator=generator)
                b = torch.randn(n, n, device="cuda", generator=generator)
                if not torch.equal(graphed(a, b), plain(a, b)):
                    wrong.append(f"thread {number}, call {call}")
            torch.cuda.current_stream().synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert transform.stats().graphs <= 3
    assert transform.stats().replays > 0


def test_a_fused_symbol_of_torch_compile_is_graphed() -> None:
    """A lone `TorchCompile0`, forward and backward, replays and equals the same executor without graphs."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(x * w) * x).sum()

    transform = CUDAGraphTransform()
    graphed = thunder.jit(fn, executors=["torchcompile"], transforms=[transform])
    plain = thunder.jit(fn, executors=["torchcompile"])
    w = torch.randn(64, 64, device="cuda", requires_grad=True)
    for _ in range(5):
        x, found = torch.randn(64, 64, device="cuda"), []
        for jitted in (graphed, plain):
            loss = jitted(x, w)
            loss.backward()
            found.append((loss.detach(), w.grad))
            w.grad = None
        assert torch.equal(found[0][0], found[1][0])
        assert torch.equal(found[0][1], found[1][1])
    assert (transform.stats().captures, transform.stats().replays) == (2, 8)


def capture_stream_of(transform: CUDAGraphTransform) -> int:
    """The handle of the stream on which the transform captures."""
    return transform._runtime.pool("cuda:0")._streams[-1].stream.cuda_stream


def test_captures_have_streams_that_nobody_else_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither torch's ring nor a transform that is alive has the stream of another one; those that rest are few."""
    monkeypatch.setattr("cgverify.runtime.capture_stream._resting", defaultdict(deque))
    alive, seen = [], []
    for number in range(4 * RESTING):
        transform = CUDAGraphTransform()
        jitted = thunder.jit(lambda x: x.sin() + 1, transforms=[transform])
        for _ in range(3):
            jitted(torch.ones(4, device="cuda"))
        seen.append(capture_stream_of(transform))
        if number < 2:
            alive.append(jitted)
        else:
            transform.reset()
    assert len(set(seen[:3])) == 3
    assert not set(seen[:2]) & set(seen[2:])
    assert RESTING <= len(set(seen)) <= 3 + 2 * RESTING
    assert not set(seen) & {0, *(torch.cuda.Stream().cuda_stream for _ in range(64))}


@pytest.mark.parametrize(("dtype", "sizes"), [(torch.float32, (64, 65536, 64)), (torch.bfloat16, (128, 8192, 128))])
def test_products_beside_replays_have_workspaces_of_their_own(dtype: torch.dtype, sizes: tuple[int, int, int]) -> None:
    """Long products are summed in parts in a workspace: on every stream of torch's ring at once, and replayed, all are
    right.
    """
    rows, inner, columns = sizes
    one, two, three, four = (
        torch.randn(*shape, device="cuda", dtype=dtype) for shape in ((rows, inner), (inner, columns)) * 2
    )
    jitted = thunder.jit(lambda a, b: (a @ b) * 1.0, transforms=[CUDAGraphTransform()])
    for _ in range(3):
        jitted(one, two)
    expected, beside = (one @ two) * 1.0, three @ four
    ring = [torch.cuda.Stream() for _ in range(32)]
    torch.cuda.synchronize()
    for _ in range(5):
        ungraphed = []
        for stream in ring:
            with torch.cuda.stream(stream):
                ungraphed += [three @ four for _ in range(2)]
        replayed = [jitted(one, two) for _ in range(6)]
        torch.cuda.synchronize()
        assert all(torch.equal(result, expected) for result in replayed)
        assert all(torch.equal(result, beside) for result in ungraphed)


def test_a_graph_of_somebody_else_keeps_its_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures leave alone what an older graph of the caller's writes to, on a stream that was warmed up before."""
    monkeypatch.setattr("cgverify.runtime.capture_stream._resting", defaultdict(deque))
    one, two = torch.randn(64, 65536, device="cuda"), torch.randn(65536, 64, device="cuda")
    stream, theirs = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        expected = one @ two
    torch.cuda.synchronize()
    with torch.cuda.graph(theirs, stream=stream):
        result = one @ two
    jitted = thunder.jit(lambda a, b: (a @ b) * 1.0, transforms=[CUDAGraphTransform()])
    for _ in range(3):
        jitted(one, two)
    with torch.cuda.stream(stream):
        others = [torch.zeros(4 << 20, device="cuda") for _ in range(8)]
    torch.cuda.synchronize()
    theirs.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, expected)
    assert not any(bool(other.any()) for other in others)


class Late(torch.autograd.Function):
    """Multiplied, with a gradient that its stream takes long to make."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        torch.cuda._sleep(1_000_000_000)
        return gradient * ctx.factor, None


def test_thunder_reads_a_cotangent_before_its_stream_wrote_it() -> None:
    """Without graphs: Thunder's split autograd nodes run a backward on no stream that autograd knows."""
    main, side, right = torch.cuda.current_stream(), torch.cuda.Stream(), []
    for unsplit in (False, True):
        jitted = thunder.jit(torch.nn.Linear(64, 64).to("cuda"), thunderfx_disable_split_autograd=unsplit)
        # the first step makes handles and loads kernels, for which the device is waited for; and in each step memory
        # that was not written yet holds at best what another step wrote
        for factor in (3.0, 5.0):
            x = torch.ones(64, 64, device="cuda", requires_grad=True)
            side.wait_stream(main)
            with torch.cuda.stream(side):
                y = Late.apply(jitted(x), factor)
            main.wait_stream(side)
            y.sum().backward()
            torch.cuda.synchronize()
        assert x.grad is not None
        right.append(torch.allclose(x.grad, factor * torch.ones_like(x) @ jitted.get_parameter("weight"), atol=1e-4))
    assert right == [False, True]


def test_a_failed_capture_leaves_older_graphs_drawing() -> None:
    """A graph that draws numbers follows the generator after another graph's capture failed."""
    good, reference = (
        thunder.jit(lambda x: functional.dropout(x, 0.5), transforms=transforms)
        for transforms in ([CUDAGraphTransform()], [])
    )
    broken = CUDAGraphTransform(capturable={"inv"})
    bad = thunder.jit(lambda x: torch.linalg.inv(x) + functional.dropout(x, 0.5), transforms=[broken])
    x = torch.eye(8, device="cuda") * 3
    for step in range(6):
        if step >= 2:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                bad(x)
        torch.manual_seed(step)
        one = good(x), torch.cuda.get_rng_state()
        torch.manual_seed(step)
        other = reference(x), torch.cuda.get_rng_state()
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])
    assert broken.stats().ungraphed[Refusal.CAPTURE_FAILED.value] >= 2


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_two_devices_have_a_graph_each() -> None:
    """Called with tensors of two devices: one graph per device, each right, and the current device stays."""
    transform = CUDAGraphTransform()
    graphed, plain = (thunder.jit(lambda x: torch.relu(x) @ x, transforms=ts) for ts in ([transform], []))
    for _ in range(4):
        for device in ("cuda:0", "cuda:1"):
            x = torch.randn(32, 32, device=device)
            assert torch.equal(graphed(x), plain(x))
            assert torch.cuda.current_device() == 0
    assert transform.stats().graphs == 2
