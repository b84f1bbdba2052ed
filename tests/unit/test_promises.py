"""The promises of the transform, on a real device where there is one and on the emulation elsewhere.

The yardstick is `thunder.jit` without graphs: results, writes, gradients and random numbers must be its own, bit for
bit, over several calls: un-graphed, captured, replayed, replayed with new values.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import threading
import warnings
from collections.abc import Callable
from typing import Any

from cgverify import CUDAGraphTransform, UngraphedWarning
from cgverify.runtime.guards import Refusal
from tests.builders import TraceBuilder

import pytest
import thunder
import torch
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol
from thunder.core.trace import tracectx
from thunder.executors import torchex
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.usefixtures("cuda")

CALLS = 5


def jit_pair(fn: Any, **options: Any) -> tuple[Any, Any, CUDAGraphTransform]:
    """`fn` jitted with graphs and without, and the transform. A module is copied, so that each has its own state."""
    transform = CUDAGraphTransform(**options)
    other = copy.deepcopy(fn) if isinstance(fn, nn.Module) else fn
    return thunder.jit(fn, transforms=[transform]), thunder.jit(other), transform


def assert_same(one: Any, other: Any) -> None:
    """Equal bits, dtype, shape and strides, through tuples."""
    if isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif isinstance(one, torch.Tensor):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        assert one.requires_grad == other.requires_grad
        assert torch.equal(one.detach().nan_to_num(), other.detach().nan_to_num())
    else:
        assert one == other


def ungraphed(transform: CUDAGraphTransform, refusal: Refusal) -> int:
    """Calls of regions that ran un-graphed for this reason."""
    return transform.stats().ungraphed.get(refusal.value, 0)


class Block(nn.Module):
    """A small transformer block: attention, MLP, two norms, dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-2, -1) / 2.0, -1)
        x = x + self.drop(self.out(weights @ v))
        return x + self.mlp(self.norm2(x))


class Net(nn.Module):
    """A convolutional net with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 3), 1))


@pytest.mark.parametrize(("make", "shape"), [(Block, (2, 4, 8)), (Net, (2, 1, 8, 8))])
def test_training_equals_thunder_without_graphs(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """Outputs, gradients, running statistics and the generator agree over forward and backward of five steps."""
    torch.manual_seed(0)
    module = make().to("cuda")
    graphed, plain, transform = jit_pair(module)
    for step in range(CALLS):
        x = torch.randn(shape, device="cuda")
        found = []
        for jitted in (graphed, plain):
            torch.cuda.manual_seed(step)
            y = jitted(x)
            (y * y).sum().backward()
            state = [p.grad.clone() for p in jitted.parameters()] + [b.clone() for b in jitted.buffers()]
            found.append((y.detach(), state, torch.cuda.get_rng_state()))
            jitted.zero_grad()
        assert_same(*found)
    stats = transform.stats()
    assert (stats.captures, stats.replays) == (2, 2 * (CALLS - 1))
    assert stats.ungraphed == {Refusal.FIRST_CALL.value: 2}


def test_batch_norm_updates_its_statistics_once_per_call() -> None:
    """In training mode without gradients the running mean follows eager from the first call on."""
    net = nn.BatchNorm1d(4).to("cuda")
    reference = copy.deepcopy(net)
    jitted = thunder.jit(net, transforms=[CUDAGraphTransform()])
    with torch.no_grad():
        for _ in range(CALLS):
            x = torch.randn(6, 4, device="cuda") + 3
            jitted(x)
            reference(x)
            torch.testing.assert_close(net.running_mean, reference.running_mean)
            torch.testing.assert_close(net.running_var, reference.running_var)
            assert net.num_batches_tracked.item() == reference.num_batches_tracked.item()


def test_a_cache_written_in_place_is_the_callers() -> None:
    """A key-value cache updated with `copy_` changes the caller's tensor, once per call."""

    def step(cache: torch.Tensor, new: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        cache[:, 1:3].copy_(new)
        return torch.softmax(q @ cache.transpose(0, 1), -1) @ cache

    graphed, plain, transform = jit_pair(step)
    mine = torch.zeros(4, 4, device="cuda")
    theirs = mine.clone()
    for _ in range(CALLS):
        new, q = torch.randn(4, 2, device="cuda"), torch.randn(3, 4, device="cuda")
        assert_same(graphed(mine, new, q), plain(theirs, new, q))
        assert_same(mine, theirs)
        assert torch.equal(mine[:, 1:3], new)
    assert transform.stats().replays >= CALLS - 1


def test_item_islands_are_right_and_leave_the_generator_usable() -> None:
    """Two `.item()` islands: numbers change on every call, graphs do not multiply, random ops work afterwards."""

    def islands(x: torch.Tensor) -> tuple[torch.Tensor, float]:
        first = (x * 2).sum().item()
        y = torch.relu(x + 1)
        second = (y * y).sum().item()
        return y.sin() * first + second, second

    graphed, plain, transform = jit_pair(islands)
    for _ in range(CALLS):
        x = torch.randn(8, device="cuda")
        assert_same(graphed(x), plain(x))
    stats = transform.stats()
    assert stats.captures == stats.graphs == len(transform.report().plans[0].regions)
    torch.manual_seed(3)
    drawn = torch.rand(4, device="cuda")
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(4, device="cuda"))


def test_the_issues_own_function_runs() -> None:
    """`x.sum().item()` returns the sum on each call; the `item` stays out of the region."""
    graphed, _, transform = jit_pair(lambda x: x.sum().item())
    for value in range(CALLS):
        assert graphed(torch.full((3,), float(value), device="cuda")) == 3.0 * value
    assert [left.symbol for left in transform.report().plans[0].left_out] == ["item"]


def test_random_numbers_are_thunders_from_the_first_call() -> None:
    """Dropout from one seed draws what it draws without graphs, and leaves the generator at the same position."""
    graphed, plain, transform = jit_pair(lambda x: functional.dropout(x, 0.5) + torch.rand_like(x))
    x = torch.ones(64, device="cuda")
    found = []
    for jitted in (graphed, plain):
        torch.manual_seed(5)
        found.append(([jitted(x) for _ in range(CALLS)], torch.cuda.get_rng_state()))
    assert_same(*found)
    assert transform.stats().captures == 1


def test_results_held_by_the_caller_stay() -> None:
    """What earlier calls returned is unchanged by later calls, and each result has memory of its own."""
    graphed, plain, _ = jit_pair(lambda x: (torch.relu(x) + 1, x.t() * 2))
    inputs = [torch.randn(4, 4, device="cuda") for _ in range(CALLS)]
    held = [graphed(x) for x in inputs]
    for x, results in zip(inputs, held, strict=True):
        assert_same(results, plain(x))
    assert len({r[0].data_ptr() for r in held}) == CALLS


def test_views_of_inputs_are_views_of_the_callers_tensor() -> None:
    """A returned view shares the caller's memory, a returned input is the caller's object."""
    graphed, _, _ = jit_pair(lambda x: (x.view(-1), x[1:], x.t(), x, x + 1))
    for _ in range(CALLS):
        x = torch.randn(4, 4, device="cuda")
        flat, tail, transposed, itself, _ = graphed(x)
        x.fill_(7.0)
        assert flat.tolist() == [7.0] * 16
        assert (tail.data_ptr(), tail.stride(), tail.shape) == (x[1:].data_ptr(), (4, 1), (3, 4))
        assert (transposed.data_ptr(), transposed.stride()) == (x.data_ptr(), (1, 4))
        assert itself is x


def test_results_that_share_memory_still_do() -> None:
    """A result and a view of it keep sharing memory, as they do without graphs."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, y[1:], y.t(), y.expand(2, 4, 4)

    graphed, plain, _ = jit_pair(fn)
    for _ in range(CALLS):
        x = torch.randn(4, 4, device="cuda")
        results = graphed(x)
        assert_same(results, plain(x))
        results[0].fill_(3.0)
        assert all(bool((r == 3.0).all()) for r in results)


def test_a_result_that_owns_its_memory_is_no_view() -> None:
    """Of two results that share memory the one that was the base stays the base: in-place ops on it work as before."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        return y, y.view(-1)

    graphed, plain, _ = jit_pair(fn)
    for _ in range(CALLS):
        found = []
        for jitted in (graphed, plain):
            base, view = jitted(torch.ones(3, 3, device="cuda"))
            found.append((base._is_view(), view._is_view(), view._base is base, base.untyped_storage().nbytes()))
            base.detach_()
        assert found[0] == found[1]
        x = torch.ones(3, 3, device="cuda", requires_grad=True)
        for jitted in (graphed, plain):
            base, view = jitted(x)
            del view
            base.add_(1)
            base.sum().backward()
        assert x.grad is not None and x.grad.tolist() == [[4.0] * 3] * 3


@pytest.mark.parametrize("settings", ["matmul", "cudnn", "all"])
def test_the_new_precision_settings_are_part_of_an_entry(settings: str) -> None:
    """`fp32_precision`, under which the old TF32 flags cannot be read, separates entries and breaks no call."""
    holder = {"matmul": torch.backends.cuda.matmul, "cudnn": torch.backends.cudnn.conv, "all": torch.backends}[settings]
    graphed, plain, transform = jit_pair(lambda x: x @ x)
    x = torch.randn(4, 4, device="cuda")
    before = holder.fp32_precision
    try:
        for value in ("tf32", "ieee"):
            holder.fp32_precision = value
            for _ in range(3):
                assert_same(graphed(x), plain(x))
    finally:
        holder.fp32_precision = before
    assert transform.stats().captures == 2


def test_writes_reach_the_caller_through_any_layout() -> None:
    """In-place writes to transposed and offset inputs land in the caller's tensor, once per call."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    graphed, plain, transform = jit_pair(fn)
    for make in (lambda t: t, lambda t: t.t(), lambda t: t[:, 1:3]):
        mine, theirs = torch.zeros(4, 4, device="cuda"), torch.zeros(4, 4, device="cuda")
        for _ in range(CALLS):
            y = torch.randn(make(mine).shape, device="cuda")
            assert_same(graphed(make(mine), y), plain(make(theirs), y))
            assert_same(mine, theirs)
    assert transform.stats().captures == 3


def test_autograd_sees_the_writes_that_it_sees_without_graphs() -> None:
    """Each call moves the version of the input that is written, and of no other: it tells a stale saved tensor."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(y)
        return x + y

    graphed, plain, transform = jit_pair(fn)
    moved = []
    for function in (graphed, plain):
        x, y = torch.ones(4, device="cuda"), torch.full((4,), 2.0, device="cuda")
        versions = []
        for _ in range(CALLS):
            before = x._version, y._version
            function(x, y)
            versions.append((x._version > before[0], y._version > before[1]))
        moved.append(versions)
    assert moved[0] == moved[1] == [(True, False)] * CALLS
    assert transform.stats().replays == CALLS - 1


def test_an_expanded_result_without_elements_is_graphed() -> None:
    """A result that repeats no elements in no memory keeps its strides, and the work beside it is graphed."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, y.expand(2, 0, 1)

    graphed, plain, transform = jit_pair(fn)
    for _ in range(CALLS):
        x, y = torch.randn(3, device="cuda"), torch.randn(1, device="cuda")[:0].view(1, 0, 1)
        assert_same(graphed(x, y), plain(x, y))
        assert graphed(x, y)[1].stride() == plain(x, y)[1].stride()
    assert transform.stats().captures == 1


def test_overlapping_inputs_with_a_writer_run_ungraphed() -> None:
    """Two views of one storage, one of them written: the call equals the un-graphed trace's, and is counted.

    Thunder itself takes such inputs for one tensor, so the trace is built by hand.
    """
    build = TraceBuilder("x", "y")
    written = build.op("copy_", build.op("mul", build["y"], 2.0), build["x"], grad_enabled=False)
    trace = build.done(build.op("add", written, build["y"]))
    transform = CUDAGraphTransform()
    graphed, plain = transform.rewrite(trace).python_callable(), trace.python_callable()
    for _ in range(3):
        mine = torch.arange(20.0, device="cuda")
        theirs = mine.clone()
        assert_same(
            graphed(mine[:16].view(4, 4), mine[4:].view(4, 4)), plain(theirs[:16].view(4, 4), theirs[4:].view(4, 4))
        )
        assert_same(mine, theirs)
    assert ungraphed(transform, Refusal.OVERLAP) == 3


def test_expanded_and_strided_inputs_are_copied_in_right() -> None:
    """Inputs with stride 0, sliding windows and offsets give the same results as without graphs."""
    graphed, plain, transform = jit_pair(lambda x: (x * 2 + 1, x.sum(0)))
    base = torch.randn(40, device="cuda")
    for make in (
        lambda t: t[:4].expand(3, 4),
        lambda t: t.as_strided((3, 4), (1, 2)),
        lambda t: t[1:13].view(3, 4),
        lambda t: t[:12].view(4, 3).t(),
    ):
        for _ in range(3):
            base.normal_()
            assert_same(graphed(make(base)), plain(make(base)))
    assert transform.stats().captures == 4


def test_replaced_parameters_are_read() -> None:
    """Weights replaced by `.data`, written in place, or replaced by `load_state_dict(assign=True)` are read at once."""
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU()).to("cuda").requires_grad_(False)
    graphed, transform = thunder.jit(net, transforms=[t := CUDAGraphTransform()]), t
    plain = thunder.jit(net)
    x = torch.randn(2, 3, device="cuda")
    for step in range(8):
        if step % 2:
            net[0].weight.data = torch.randn(3, 3, device="cuda")
        elif step % 4 == 2:
            weights = {k: torch.randn_like(v) for k, v in net.state_dict().items()}
            for jitted in (graphed, plain):
                jitted.load_state_dict(weights, assign=True)
        assert_same(graphed(x), plain(x))
        for parameter in (*graphed.parameters(), *net.parameters()):
            parameter.data.mul_(2)
        assert_same(graphed(x), plain(x))
    assert transform.stats().replays > 0


def test_two_forwards_before_the_first_backward() -> None:
    """Saved tensors of the first forward are not overwritten by the second."""
    graphed, plain, _ = jit_pair(lambda x, w: torch.tanh(x @ w).sum())
    w = torch.randn(3, 3, device="cuda", requires_grad=True)
    for _ in range(CALLS):
        a, b = torch.randn(2, 2, 3, device="cuda")
        found = []
        for jitted in (graphed, plain):
            losses = jitted(a, w), jitted(b, w)
            grads = []
            for loss in losses:
                loss.backward()
                grads.append(w.grad)
                w.grad = None
            found.append((tuple(loss.detach() for loss in losses), grads))
        assert_same(*found)


def test_host_work_stays_on_the_host() -> None:
    """CPU tensors, a 0-d CPU tensor and a move to the host are read anew on each call."""

    def fn(x: torch.Tensor, h: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x * 2 + 1) * s, (h + 1) * 2, (x + 1).cpu() * 3

    graphed, plain, transform = jit_pair(fn)
    for value in range(1, CALLS):
        x, h, s = torch.ones(3, device="cuda") * value, torch.ones(3) * value, torch.tensor(float(value))
        assert_same(graphed(x, h, s), plain(x, h, s))
    reasons = [left.reason for left in transform.report().plans[0].left_out]
    assert "works on `s`, a tensor on cpu" in reasons
    assert "copies between host and device" in reasons


def test_a_failed_capture_falls_back_warns_once_and_breaks_nothing() -> None:
    """An op vouched for that syncs: the call is right, one warning names it, and generator and stream are as before."""

    def fn(x: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x + 4 * e) + functional.dropout(x, 0.5)

    e = torch.eye(4, device="cuda")
    graphed, plain, transform = jit_pair(fn, capturable={"inv"})
    stream = torch.cuda.current_stream()
    said: list[str] = []
    for step in range(3):
        x = torch.randn(4, 4, device="cuda")
        found = []
        for jitted in (graphed, plain):
            torch.manual_seed(step)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", RuntimeWarning)
                result = jitted(x, e)
            said += [str(w.message) for w in caught if issubclass(w.category, UngraphedWarning)]
            found.append((result, torch.rand(3, device="cuda"), torch.cuda.get_rng_state()))
        assert_same(*found)
    assert len(said) == 1 and said[0].startswith("CUDAGraph0 runs un-graphed") and "the capture failed" in said[0]
    assert torch.cuda.current_stream() == stream
    assert not torch.cuda.is_current_stream_capturing()
    assert ungraphed(transform, Refusal.CAPTURE_FAILED) == 2
    good, reference, _ = jit_pair(lambda x: functional.dropout(x, 0.5))
    for step in range(3):
        x = torch.randn(4, 4, device="cuda")
        torch.manual_seed(step)
        found_one = good(x)
        torch.manual_seed(step)
        assert_same(found_one, reference(x))


def test_inside_somebody_elses_capture_it_runs_ungraphed() -> None:
    """A graphed function captured by the caller is part of the caller's graph."""
    graphed, _, transform = jit_pair(lambda x: torch.relu(x) * 2)
    x = torch.randn(4, device="cuda")
    for _ in range(3):
        graphed(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = graphed(x)
    x.fill_(3.0)
    graph.replay()
    assert y.tolist() == [6.0] * 4
    assert ungraphed(transform, Refusal.INSIDE_CAPTURE) == 1


def test_graphs_are_bounded_reset_and_freed() -> None:
    """No more graphs than `max_graphs` live; `reset` drops them; dropping the function frees the rest."""
    graphed, plain, transform = jit_pair(lambda x: torch.relu(x) + 1, max_graphs=2)
    for _ in range(3):
        for n in (1, 2, 3, 4):
            x = torch.randn(n, 4, device="cuda")
            assert_same(graphed(x), plain(x))
    assert transform.stats().graphs == 2
    assert transform.stats().bytes_held > 0
    transform.reset()
    assert (transform.stats().graphs, transform.stats().bytes_held) == (0, 0)
    for _ in range(2):
        graphed(torch.randn(4, 4, device="cuda"))
    assert transform.stats().graphs == 1
    del graphed
    gc.collect()
    assert transform.stats().graphs == 0


def test_switches_that_choose_kernels_are_part_of_an_entry() -> None:
    """A graph captured with one setting of TF32 does not serve a call under another."""
    graphed, _, transform = jit_pair(lambda x: x @ x)
    x = torch.randn(4, 4, device="cuda")
    before = torch.backends.cuda.matmul.allow_tf32
    try:
        for value in (True, False):
            torch.backends.cuda.matmul.allow_tf32 = value
            graphed(x)
            graphed(x)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert transform.stats().captures == 2


def test_check_first_accepts_right_graphs() -> None:
    """`check="first"` compares writes, results and draws of the first replay, and keeps a graph that is right."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return functional.dropout(x, 0.5)

    graphed, plain, transform = jit_pair(fn, check="first")
    mine, theirs = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    for step in range(CALLS):
        y = torch.randn(4, device="cuda")
        torch.manual_seed(step)
        one = graphed(mine, y)
        torch.manual_seed(step)
        assert_same((one, mine), (plain(theirs, y), theirs))
    assert ungraphed(transform, Refusal.CHECK_FAILED) == 0
    assert transform.stats().replays == CALLS - 1


def test_graphs_can_be_switched_off_for_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `CGVERIFY_DISABLE=1` traces stay as they are."""
    monkeypatch.setenv("CGVERIFY_DISABLE", "1")
    graphed, plain, transform = jit_pair(lambda x: torch.relu(x) + 1)
    x = torch.randn(4, device="cuda")
    assert_same(graphed(x), plain(x))
    assert "CUDAGraph" not in str(thunder.last_traces(graphed)[-1])
    assert transform.report().plans == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_unproved": "maybe"}, "on_unproved='maybe' is neither 'raise' nor 'ungraphed'"),
        ({"check": "always"}, "check='always' is neither None nor 'first'"),
        ({"max_graphs": 0}, "max_graphs=0 is no positive integer"),
        ({"capturable": "item"}, "capturable='item' is one string"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    """Each bad option is refused with its value."""
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        CUDAGraphTransform(**options)


def test_graphs_of_one_transform_share_buffers_and_scratch() -> None:
    """Regions of two functions under one transform use the same memory, and stay right in any order of calls."""
    transform = CUDAGraphTransform()
    functions = [lambda x: torch.relu(x * 2) + 1, lambda x: (x + 3).sin() * x, lambda x: (x - 1).exp().sum()]
    graphed = [thunder.jit(fn, transforms=[transform]) for fn in functions]
    plain = [thunder.jit(fn) for fn in functions]
    held = []
    for order in ((0, 1, 2), (0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)):
        for k in order:
            x = torch.randn(64, 64, device="cuda")
            held.append((graphed[k](x), plain[k](x)))
    for result, expected in held:
        assert_same(result, expected)
    assert transform.stats().graphs == 3
    assert len(transform._runtime.pool("cuda:0")._stores) == 1


def test_a_failed_capture_holds_no_memory() -> None:
    """After failed captures the device's reserved memory does not grow, and later graphs work."""

    def fn(x: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x * 2 + 4 * e)

    e = torch.eye(512, device="cuda")
    transform, reserved = CUDAGraphTransform(capturable={"inv"}), []
    for attempt in range(4):
        graphed, plain = thunder.jit(fn, transforms=[transform]), thunder.jit(fn)
        for _ in range(3):
            x = torch.randn(512, 512, device="cuda")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                assert_same(graphed(x, e), plain(x, e))
        assert ungraphed(transform, Refusal.CAPTURE_FAILED) == 2 * (attempt + 1)
        del graphed, plain, x
        gc.collect()
        torch.cuda.empty_cache()
        reserved.append(torch.cuda.memory_reserved())
    assert reserved[1] == reserved[3]
    graphed, plain = thunder.jit(lambda x: x * 2 + 1, transforms=[transform]), thunder.jit(lambda x: x * 2 + 1)
    for _ in range(3):
        x = torch.randn(8, device="cuda")
        assert_same(graphed(x), plain(x))
    assert transform.stats().captures == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_bit_pattern_passes_through(dtype: torch.dtype) -> None:
    """Signalling NaNs, payloads and signs arrive as they are, through copies in, back and out."""
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    bits = torch.randint(torch.iinfo(integers).min, torch.iinfo(integers).max, (256,), dtype=integers)

    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y.copy_(x.flip(0))
        return x.flip(0), torch.cat([x, x]), y.tril() if y.dim() > 1 else y.roll(1)

    graphed, plain, transform = jit_pair(fn)
    x = bits.view(dtype).to("cuda")
    for _ in range(4):
        mine, theirs = torch.zeros_like(x), torch.zeros_like(x)
        for result, expected in zip((*graphed(x, mine), mine), (*plain(x, theirs), theirs), strict=True):
            assert torch.equal(result.view(integers), expected.view(integers))
    assert transform.stats().replays == 3


def test_a_region_without_kernels_runs_ungraphed_in_silence() -> None:
    """A conversion to the dtype that a tensor has launches nothing: no graph, no warning, the caller's own tensor."""
    build = TraceBuilder("x")
    trace = build.done(build.op("to", build["x"], dtype=torch.float32, copy=False))
    transform = CUDAGraphTransform()
    graphed = transform.rewrite(trace).python_callable()
    for _ in range(3):
        x = torch.randn(4, 4, device="cuda")
        assert graphed(x)[0] is x
    assert transform.stats().graphs == 0
    assert ungraphed(transform, Refusal.EMPTY) == 2


@pytest.mark.parametrize("capturable", [{"double"}, lambda bsym: bsym.sym.name == "double"])
def test_an_op_vouched_for_is_graphed_and_proved(capturable: Any) -> None:
    """Names and predicates alike: the op joins a region, and the verifier takes it on trust with a note."""
    build = TraceBuilder("x")
    with tracectx(build.trace):
        symbol = Symbol("double", meta=lambda a: a, id="mine.double", executor=torchex.ex)
        result = TensorProxy("r", like=build["x"])
        context = {"double": lambda a: a * 2}
        build.trace.bound_symbols.append(symbol.bind(build["x"], output=result, _call_ctx=context))
    transform = CUDAGraphTransform(capturable=capturable)
    graphed = transform.rewrite(build.done(build.op("mul", result, 3.0))).python_callable()
    for value in range(4):
        assert graphed(torch.full((4, 4), float(value), device="cuda"))[0][0, 0].item() == 6.0 * value
    assert transform.stats().replays == 3


def test_a_write_that_the_trace_hides_keeps_the_region_ungraphed() -> None:
    """An op vouched for that writes its argument unannounced: the capture notices, and every call stays right."""

    def shift(a: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * 2

    build = TraceBuilder("x")
    with tracectx(build.trace):
        symbol = Symbol("shift", meta=lambda a: a, id="shift", executor=torchex.ex)
        result = TensorProxy("r", like=build["x"])
        build.trace.bound_symbols.append(symbol.bind(build["x"], output=result, _call_ctx={"shift": shift}))
    trace = build.done(build.op("mul", result, 3.0))
    transform = CUDAGraphTransform(capturable={"shift"})
    graphed = transform.rewrite(trace).python_callable()
    x = torch.zeros(4, 4, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for call in range(1, 4):
            assert graphed(x)[0][0, 0].item() == 6.0 * call
            assert x[0, 0].item() == call
    assert ungraphed(transform, Refusal.HIDDEN_WRITE) == 2


def test_graphs_are_captured_after_an_empty_capture_and_after_the_last_graph_went() -> None:
    """The pool's handle is renewed when no graph holds it: after a capture without launches, after `reset`."""
    build = TraceBuilder("x")
    same = build.op("to", build["x"], dtype=torch.float32, copy=False)
    transform = CUDAGraphTransform()
    empty = transform.rewrite(build.done(same)).python_callable()
    build = TraceBuilder("x")
    full = transform.rewrite(build.done(build.op("exp", build["x"]))).python_callable()
    x = torch.zeros(4, 4, device="cuda")
    for _ in range(2):
        for _ in range(3):
            assert empty(x)[0] is x
        for _ in range(3):
            assert full(x)[0][0, 0].item() == 1.0
        assert transform.stats().graphs == 1
        transform.reset()


def test_a_thread_captures_only_what_it_has_run(cuda: Any) -> None:
    """Libraries keep a handle per thread and cannot make one in a capture: a thread's first call runs un-graphed."""
    graphed, plain, transform = jit_pair(lambda x: x @ x + 1)
    x = torch.randn(8, 8, device="cuda")
    expected = plain(x)
    assert_same(graphed(x), expected)
    captures: list[int] = []

    def work() -> None:
        with getattr(cuda, "in_thread", contextlib.nullcontext)():
            for _ in range(3):
                assert_same(graphed(x), expected)
                captures.append(transform.stats().captures)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert captures == [0, 1, 1]
    assert ungraphed(transform, Refusal.FIRST_CALL) == 2
