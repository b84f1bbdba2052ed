"""Group F: captures that fail, or must not begin."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from cgverify.runtime.guards import Refusal
from tests.faults.pairs import CALLS, Pair, assert_same, operator, randn, step, warnings_of_the_transform

import numpy
import pytest
import torch
from thunder.core.proxies import TensorProxy
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.usefixtures("cuda")


def test_F01_work_that_waits_for_the_device() -> None:
    """Reads of values at three places of a program stay between regions, which hold all the rest."""

    def fn(x: torch.Tensor) -> Any:
        a = x.sum().item()
        b = (x * 2).sin() + a
        c = b.max().item()
        return (b * c).cos(), (b > 0).sum().item(), c

    pair = Pair(fn)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(6),), seed)
    assert set(pair.left_out) <= {"item", "mul", "add"}
    assert pair.left_out["item"] == "waits for the device to hand a value to the host"
    pair.assert_graphed()


def put(x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return (x * 2).index_put((index,), values).cumsum(0)


def put_and_add(x: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return (x * 2).index_put((index,), values, accumulate=True)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("fn", [put, put_and_add])
def test_F02_safety_depends_on_flags(fn: Callable[..., Any], deterministic: bool) -> None:
    """`index_put` with integer indices is graphed, with and without accumulation and deterministic algorithms."""
    pair = Pair(fn)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(deterministic)
    try:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(5), torch.randperm(5, device="cuda")[:3], randn(3)), seed)
    finally:
        torch.use_deterministic_algorithms(before)
    pair.assert_graphed(captures=1)


def test_F02_safety_depends_on_arguments() -> None:
    """Setting an element to a Python number, which copies it from the host, is left out; to a tensor it is graphed."""

    def put_number(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[0] = 3.0
        return y.sin()

    def put_tensor(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[0] = x[1]
        return y.sin()

    number, tensor = Pair(put_number), Pair(put_tensor)
    for seed in range(CALLS):
        number.agree(lambda: (randn(5),), seed)
        tensor.agree(lambda: (randn(5),), seed)
    assert "may copy a Python number from host memory" in number.left_out.values()
    assert tensor.left_out == {}
    number.assert_graphed()
    tensor.assert_graphed(captures=1)


@pytest.mark.parametrize("vouched", [False, True])
def test_F03_hidden_read_by_the_host(vouched: bool) -> None:
    """An op that reads offsets on the host runs un-graphed; vouched for, its capture fails, and it still does."""

    def grouped(a: torch.Tensor) -> torch.Tensor:
        return a * 2 if a.sum().item() > 0 else a * 3

    symbol, jit = operator(grouped, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: functional.dropout(symbol(x + 1), 0.5), jit=jit, capturable={"grouped"} if vouched else None)
    with warnings_of_the_transform() as said:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(4),), seed)
    assert pair.ungraphed(Refusal.CAPTURE_FAILED) == (CALLS - 1 if vouched else 0)
    assert len(said) == vouched
    assert vouched or pair.left_out["grouped"].startswith("unknown op")


def test_F04_kernel_built_inside_the_capture() -> None:
    """Each layout and dtype runs once un-graphed before its capture, which therefore never builds a kernel."""
    built: set[Any] = set()

    def lazily(a: torch.Tensor) -> torch.Tensor:
        kind = a.dtype, a.shape, a.stride(), a.data_ptr() % 16
        if kind not in built:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError("a kernel would be built inside a capture")
            built.add(kind)
        return a * 2

    symbol, jit = operator(lazily, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: symbol(x) + 1, jit=jit, capturable={"lazily"})
    kinds: list[Callable[[], torch.Tensor]] = [
        lambda: randn(4, 4),
        lambda: randn(4, 4).t(),
        lambda: randn(4, 4, dtype=torch.float64),
        lambda: randn(40)[1:17].view(4, 4),
    ]
    for make in kinds:
        for seed in range(3):
            torch.manual_seed(seed)
            x = make()
            assert torch.equal(pair.graphed(x), x * 2 + 1)
    pair.assert_graphed(captures=len(kinds))


@pytest.mark.parametrize("enabled", [True, False])
def test_F05_finaliser_in_the_middle_of_a_capture(enabled: bool) -> None:
    """A graph that dies while another is captured gives its memory back later; collection is as before afterwards."""
    garbage: list[Pair] = []
    ran: list[bool] = []

    def collects(a: torch.Tensor) -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():
            ran.append(gc.isenabled())
            garbage.clear()
            gc.collect()
        return a * 2

    symbol, jit = operator(collects, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: symbol(x + 1) + 1, jit=jit, capturable={"collects"})
    doomed = Pair(lambda x: torch.relu(x) + 1, transform=pair.transform)
    own = Pair(lambda x: torch.relu(x) - 1)
    for _ in range(3):
        doomed.agree(lambda: (randn(4),))
        own.agree(lambda: (randn(4),))
    doomed.itself, own.itself = doomed, own  # type: ignore[attr-defined]
    garbage += [doomed, own]
    del doomed, own
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(4),), seed)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()
    assert ran == [False]
    pair.assert_graphed()
    assert pair.transform.stats().graphs == 1


@pytest.mark.parametrize("calls_before", [0, 1, 5])
def test_F06_somebody_else_is_capturing(calls_before: int) -> None:
    """Inside the caller's capture, cold or warm, the function is part of the caller's graph; later calls go on."""
    pair = Pair(lambda x, w: torch.relu(x @ w) * 2)
    x, w = randn(3, 3), randn(3, 3)
    _ = x @ w  # the library's own set-up
    for _ in range(calls_before):
        pair.agree(lambda: (x.clone(), w))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = pair.graphed(x, w)
    for seed in range(CALLS):
        torch.manual_seed(seed)
        x.copy_(randn(3, 3))
        graph.replay()
        assert torch.equal(y, torch.relu(x @ w) * 2)
        pair.agree(lambda: (x.clone(), w), seed)
    assert pair.ungraphed(Refusal.INSIDE_CAPTURE) == 1
    pair.assert_graphed(captures=1)


class Injected(RuntimeError):
    """The planted failure."""


def fail_once(monkeypatch: pytest.MonkeyPatch, point: str, error: type[Exception]) -> list[int]:
    """Makes one method of CUDAGraph fail the next time; a capture ends before its end is said to fail."""
    real = getattr(torch.cuda.CUDAGraph, point)
    failed: list[int] = []

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if failed:
            return real(self, *args, **kwargs)
        failed.append(1)
        if point == "capture_end":
            real(self, *args, **kwargs)
        raise error("planted")

    monkeypatch.setattr(torch.cuda.CUDAGraph, point, method)
    return failed


@pytest.mark.parametrize("check", [None, "first"])
@pytest.mark.parametrize(
    ("point", "error"),
    [
        ("capture_begin", Injected),
        ("capture_end", torch.OutOfMemoryError),
        ("replay", ValueError),
    ],
    ids=["begin", "end", "replay"],
)
def test_F07_a_method_of_the_graph_fails(
    monkeypatch: pytest.MonkeyPatch, point: str, error: type[Exception], check: Any
) -> None:
    """A failure at begin, end or first replay: the call is right, one warning, and nothing is left behind."""

    def fn(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        c.add_(x)
        return functional.dropout(x * 2, 0.5) + torch.rand_like(c)

    pair = Pair(fn, check=check)
    stream = torch.cuda.current_stream()
    pair.agree(lambda: (randn(8), randn(8)))
    gc.collect()
    allocated = torch.cuda.memory_allocated()
    failed = fail_once(monkeypatch, point, error)
    with warnings_of_the_transform() as said:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(8), randn(8)), seed)
    assert failed and len(said) == 1 and error.__name__ in said[0]
    assert pair.ungraphed(Refusal.CAPTURE_FAILED) == CALLS
    assert torch.cuda.current_stream() == stream and not torch.cuda.is_current_stream_capturing()
    gc.collect()
    assert torch.cuda.memory_allocated() <= allocated  # less where a capture stream was used again: without workspaces
    other = Pair(lambda x: functional.dropout(x, 0.5) + 1, transform=pair.transform)
    for seed in range(CALLS):
        other.agree(lambda: (randn(8),), seed)
    assert other.transform.stats().captures == 1 + (point == "replay")


@pytest.mark.parametrize("error", [Injected, torch.OutOfMemoryError])
@pytest.mark.parametrize("when", ["first call", "capture"])
def test_F07_the_body_fails(when: str, error: type[Exception]) -> None:
    """An error of the program itself reaches the caller once; one that only a capture meets does not reach anybody."""
    armed: list[bool] = []

    def fragile(a: torch.Tensor) -> torch.Tensor:
        if armed and torch.cuda.is_current_stream_capturing() == (when == "capture"):
            armed.clear()
            raise error("planted")
        return a * 2

    symbol, jit = operator(fragile, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: functional.dropout(symbol(x), 0.5) * 3, jit=jit, capturable={"fragile"})
    if when == "first call":
        armed.append(True)
        with pytest.raises(error, match="planted"):
            pair.graphed(randn(8))
    else:
        pair.agree(lambda: (randn(8),))
        armed.append(True)
    with warnings_of_the_transform() as said:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(8),), seed)
    assert len(said) == (when == "capture") and all(f"{error.__name__}: planted" in message for message in said)
    assert pair.ungraphed(Refusal.CAPTURE_FAILED) == (CALLS if when == "capture" else 0)
    assert pair.transform.stats().captures == (0 if when == "capture" else 1)
    other = Pair(lambda x: functional.dropout(x, 0.5) + 1, transform=pair.transform)
    for seed in range(CALLS):
        other.agree(lambda: (randn(8),), seed)
    assert other.transform.stats().graphs >= 1


def test_F07_no_memory_for_the_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """When static buffers find no memory the call runs un-graphed, and the memory they took is given back."""
    pair = Pair(lambda x, y: (x * 2).sin() + y)
    pair.agree(lambda: (randn(512), randn(512)))
    gc.collect()
    allocated = torch.cuda.memory_allocated()
    real, taken = torch.empty, []

    def empty(*args: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("dtype") is torch.uint8 and kwargs.get("device") is not None and len(taken) < 2:
            taken.append(1)
            if len(taken) == 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
        return real(*args, **kwargs)

    with monkeypatch.context() as patch, warnings_of_the_transform() as said:
        patch.setattr(torch, "empty", empty)
        pair.agree(lambda: (randn(512), randn(512)))
    assert len(taken) == 2 and len(said) == 1 and "OutOfMemoryError" in said[0]
    gc.collect()
    assert torch.cuda.memory_allocated() <= allocated
    pair.agree(lambda: (randn(512), randn(512)))


def test_F07_no_memory_for_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """When results find no memory at a first replay, the call runs un-graphed, and its writes happen once."""

    def fn(c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        c.add_(x)
        return c * 2

    pair = Pair(fn)
    c, x = torch.zeros(512, device="cuda"), torch.ones(512, device="cuda")
    pair.graphed(c, x)

    end, allocate = torch.cuda.CUDAGraph.capture_end, torch.empty_strided
    armed: list[int] = []

    def capture_end(self: Any) -> None:
        end(self)
        armed.append(1)

    def empty_strided(*args: Any, **kwargs: Any) -> torch.Tensor:
        if armed:
            armed.clear()
            raise torch.OutOfMemoryError("planted")
        return allocate(*args, **kwargs)

    with monkeypatch.context() as patch, warnings_of_the_transform() as said:
        patch.setattr(torch.cuda.CUDAGraph, "capture_end", capture_end)
        patch.setattr(torch, "empty_strided", empty_strided)
        assert torch.equal(pair.graphed(c, x), torch.full_like(c, 4.0))
    assert len(said) == 1 and "the first replay failed" in said[0]
    assert c.tolist() == [2.0] * 512
    assert torch.equal(pair.graphed(c, x), c * 2) and c.tolist() == [3.0] * 512


def test_F08_region_without_tensor_inputs() -> None:
    """Functions without arguments, or with a number as the first one, are graphed on the device they name."""
    pairs = [
        (Pair(lambda: torch.ones(3, 3, device="cuda") * 2), ()),
        (Pair(lambda n: torch.full((2, 2), n, device="cuda").sin()), (3,)),
        (Pair(lambda n, x: x * n + torch.arange(3, device="cuda")), (2.5, None)),
    ]
    for pair, args in pairs:
        for seed in range(CALLS):
            pair.agree(lambda args=args: tuple(randn(3) if arg is None else arg for arg in args), seed)
        pair.assert_graphed(captures=1)


@pytest.mark.parametrize("grad", [False, True])
def test_F09_nothing_to_capture(grad: bool) -> None:
    """Batches without rows between batches with some, functions of views alone, and empty pieces of a `cat`."""
    summed = Pair(lambda x: (x * 2 + 1, x.sum()))
    views = Pair(lambda x: (x.view(-1), x.t()))
    joined = Pair(lambda x, y: torch.cat([x, y]) * 2)
    for seed in range(CALLS):
        for rows in (0, 4):

            def make(rows: int = rows) -> torch.Tensor:
                return randn(rows, 2).requires_grad_(grad)

            summed.do(lambda jitted, make=make: jitted(make()), seed)
            views.do(lambda jitted, make=make: jitted(make()), seed)
            joined.do(lambda jitted, make=make: step(jitted, make(), randn(3, 2).requires_grad_()), seed)
    assert views.transform.stats().captures == 0
    summed.assert_graphed()
    joined.assert_graphed()


def test_F10_values_that_are_no_tensors() -> None:
    """None, numbers, NumPy scalars, strings and nested tuples go in and come out as without graphs."""

    def fn(x: torch.Tensor, options: dict[str, Any], pair: tuple[Any, ...]) -> Any:
        y = (x * options["scale"]).sin() if options["mode"] == "sin" else x
        return None, (y + pair[0], pair[1]), {"mode": options["mode"], "total": y.sum().item()}, 3.0

    pair = Pair(fn)
    for seed in range(CALLS):
        for mode in ("sin", "none"):
            options = {"scale": float(numpy.float32(0.5)), "mode": mode, "absent": None}
            pair.agree(lambda options=options: (randn(4), options, (randn(4), None)), seed)
    pair.assert_graphed()


def test_F10_subclasses_of_tensors() -> None:
    """A subclass of Parameter reaches regions as it is, so the region runs un-graphed, and every call is right."""

    class Tagged(nn.Parameter):
        pass

    module = nn.Linear(3, 3).to("cuda")
    module.weight = Tagged(module.weight.detach().clone(), requires_grad=False)
    module.bias.requires_grad_(False)
    pair = Pair(module)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(2, 3),), seed)
    assert pair.ungraphed(Refusal.NOT_PLAIN) == CALLS


def test_F10_lazy_conjugates_and_negations() -> None:
    """Conjugates and imaginary parts that torch has not worked out yet run un-graphed, beside plain tensors."""
    pair = Pair(lambda x: x * 2 + 1)
    for seed in range(CALLS):
        outcomes = []
        for jitted in pair.sides:
            torch.manual_seed(seed)
            z = randn(4, dtype=torch.complex64)
            outcomes.append((jitted(z), jitted(z.conj()), jitted(z.conj().imag)))
        assert_same(*outcomes)
    assert pair.ungraphed(Refusal.LAZY_BITS) == 2 * CALLS
    pair.assert_graphed(captures=1)


def test_F10_a_result_that_is_a_lazy_conjugate() -> None:
    """A region with such a result runs un-graphed, for that reason and no other."""
    pair = Pair(lambda z: torch.exp(z).conj())
    with warnings_of_the_transform() as said:
        for _ in range(CALLS):
            z = randn(3, dtype=torch.complex64)
            assert torch.equal(pair.graphed(z), torch.exp(z).conj())
    assert pair.ungraphed(Refusal.LAZY_RESULT) == CALLS - 1
    assert len(said) == 1
