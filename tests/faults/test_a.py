"""Group A: wrong values without an error, through aliases, writes and the lifetime of buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cgverify.runtime.guards import Refusal
from tests.faults.pairs import CALLS, Pair, assert_same, operator, randn, warnings_of_the_transform

import pytest
import torch
from thunder.core.proxies import TensorProxy
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.usefixtures("cuda")


def accumulate(c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    c.add_(x)
    return c.sum()


def put_slice(c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    c[1:3] = x[:2] * 2
    return c @ x


def put_rows(c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    c[1:3].copy_(x[:2] + 1)
    return torch.softmax(c, -1)


@pytest.mark.parametrize("fn", [accumulate, put_slice, put_rows])
def test_A01_write_to_a_copied_input(fn: Callable[..., Any]) -> None:
    """A cache written through copy, slice or arithmetic holds after each call what it holds without graphs."""
    pair = Pair(fn)
    mine, theirs = torch.zeros(4, 4, device="cuda"), torch.zeros(4, 4, device="cuda")
    for _ in range(CALLS):
        x = randn(4, 4)
        assert_same((pair.graphed(mine, x), mine), (pair.plain(theirs, x), theirs))
    pair.assert_graphed()


def test_A02_earlier_results_change() -> None:
    """Results, views of them and their storages hold after later calls what the call that made them returned."""
    pair = Pair(lambda x: {"one": x * 2 + 1, "more": (torch.relu(x), [x.sum(0)])})
    inputs = [randn(3, 3) for _ in range(CALLS)]
    results = [pair.graphed(x) for x in inputs]
    kept = [(r["one"].detach(), r["one"][1:], r["more"][1][0].untyped_storage()) for r in results]
    for x, result, (alias, tail, storage) in zip(inputs, results, kept, strict=True):
        expected = pair.plain(x)
        assert_same(result, expected)
        assert_same((alias, tail), (expected["one"], expected["one"][1:]))
        assert bytes(storage.cpu()) == bytes(expected["more"][1][0].untyped_storage().cpu())
    pair.assert_graphed(captures=1)


class Derived(nn.Module):
    """A module that reads a parameter, a buffer and a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.register_buffer("scale", torch.ones(3))
        self.packed = torch.zeros(3, device="cuda")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight) * self.scale + self.packed


def swap_data(module: Any) -> None:
    module.get_parameter("weight").data = randn(3, 3)


def write_in_place(module: Any) -> None:
    with torch.no_grad():
        module.get_parameter("weight").mul_(-2).add_(1)


def assign_state(module: Any) -> None:
    module.load_state_dict({name: torch.randn_like(value) for name, value in module.state_dict().items()}, assign=True)


def new_parameter(module: Any) -> None:
    module._model.weight = nn.Parameter(randn(3, 3), requires_grad=False)


def new_buffer(module: Any) -> None:
    module._model.scale = randn(3)


def new_attribute(module: Any) -> None:
    module._model.packed = randn(3)


def round_trip(module: Any) -> None:
    module._model.double().float()


CHANGES = (swap_data, write_in_place, assign_state, new_parameter, new_buffer, new_attribute, round_trip)


def test_A03_storage_behind_a_static_input_moves() -> None:
    """After each way to replace or write weights, buffers and derived tensors the next call reads the new values."""
    pair = Pair(Derived().to("cuda").requires_grad_(False))
    for change in CHANGES:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(2, 3),), seed)
            if seed >= 2:
                pair.do(change, seed)
                randn(64).fill_(7.0)  # lands where the old weights were, if nobody holds them
            pair.agree(lambda: (randn(2, 3),), seed)
        pair.transform.reset()  # each change meets graphs of its own
    pair.assert_graphed()


def test_A04_one_tensor_as_two_arguments() -> None:
    """The same tensor, or a reshaped or transposed view of it, as second argument sees the write to the first."""

    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return a + b

    def with_view(view: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], tuple[Any, ...]]:
        def make() -> tuple[Any, ...]:
            u = randn(4, 4)
            return u, view(u)

        return make

    pair = Pair(fn)
    views = [torch.clone, lambda u: u, lambda u: u.view(4, 4), lambda u: u.t(), torch.clone]
    for seed in range(CALLS):
        for view in views:
            pair.agree(with_view(view), seed)
    pair.assert_graphed()


def test_A04_overlapping_halves_of_one_storage() -> None:
    """Two overlapping slices of a vector, one of them written, run un-graphed where they reach one region."""

    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        return a + b

    pair = Pair(fn)

    def make() -> tuple[Any, ...]:
        u = randn(9)
        return u[:-1], u[1:]

    for seed in range(CALLS):
        pair.agree(make, seed)
        pair.agree(lambda: (randn(8), randn(8)), seed)
    pair.assert_graphed()


@pytest.mark.parametrize("grad", [False, True])
def test_A05_warm_up_repeats_effects(grad: bool) -> None:
    """A counter and running statistics advance once per call from the very first one."""
    pair = Pair(nn.BatchNorm1d(3).to("cuda"))
    for seed in range(CALLS):
        with torch.set_grad_enabled(grad):
            pair.do(lambda jitted: (jitted(randn(5, 3) + 2), list(jitted.buffers())), seed)
        assert pair.graphed.get_buffer("num_batches_tracked").item() == seed + 1
    pair.assert_graphed()


def test_A06_call_counts_differ() -> None:
    """Two functions taken in turn give the same results at each of five calls, with two argument sizes mixed in."""
    pairs = [Pair(lambda x: (x * 2).sin() + 1), Pair(lambda x: functional.dropout(x.cos(), 0.5))]
    for seed in range(5):
        for size in (3, 4):
            for pair in pairs:
                pair.agree(lambda size=size: (randn(size),), seed)
    for pair in pairs:
        pair.assert_graphed(captures=2)


@pytest.mark.parametrize(
    "feed", [lambda y: y, lambda y: y.t(), lambda y: torch.cat([y[1:], y[:1]]), lambda y: y.view(16).view(4, 4)]
)
def test_A07_own_output_fed_back(feed: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """A loop in which a function's result, or a view of it, is its next argument, also through a second function."""
    first, second = Pair(lambda x: (x * 2).sin() + x), Pair(lambda x: torch.softmax(x - 1, 0))
    mine = theirs = randn(4, 4)
    for _ in range(CALLS + 2):
        mine, theirs = first.graphed(feed(mine)), first.plain(feed(theirs))
        assert_same(mine, theirs)
        mine, theirs = second.graphed(feed(mine)), second.plain(feed(theirs))
        assert_same(mine, theirs)
    first.assert_graphed()


def test_A07_views_of_outputs_as_inputs() -> None:
    """A shrinking slice of the last result is an argument of another size on every call."""
    pair = Pair(lambda x: x * 2 + 1)
    for _ in range(2):
        mine = theirs = randn(8)
        for _ in range(CALLS):
            mine, theirs = pair.graphed(mine[1:]), pair.plain(theirs[1:])
            assert_same(mine, theirs)
    pair.assert_graphed()


def test_A08_fresh_tensors_between_two_graphs() -> None:
    """A region fed by un-graphed work, whose results lie elsewhere on each call, reads them from where they are."""
    pair = Pair(lambda x: ((x * 2).cpu() + 1).cuda() * (x + 3).sum().item() + x)
    held = []
    for seed in range(CALLS):
        held.append(pair.agree(lambda: (randn(32),), seed))
        held.append(torch.full((32 * (seed + 1),), 7.0, device="cuda"))
    pair.assert_graphed()
    assert len(pair.transform.report().plans[0].regions) >= 2


class Counting(nn.Module):
    """A module that rebinds its state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n = self.n + x.sum()
        return x * self.n


def test_A09_rebound_state() -> None:
    """A counter that forward replaces by a new tensor advances on each call."""
    pair = Pair(nn.Sequential(Counting()).to("cuda"))  # Thunder itself loses what a root module rebinds
    counts = []
    for seed in range(CALLS + 1):
        pair.do(lambda jitted: (jitted(randn(2)), jitted.get_buffer("0.n").clone()), seed)
        counts.append(pair.graphed.get_buffer("0.n").tolist())
    assert len(set(map(tuple, counts))) == CALLS + 1
    pair.assert_graphed()


def test_A10_hidden_mutation() -> None:
    """An unknown op that writes its argument stays out of regions, between the reads before and after it."""

    def shift(a: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * 2

    symbol, jit = operator(shift, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: (x * 3, symbol(x), x * 5), jit=jit)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4),), seed)
    assert pair.left_out["shift"] == "unknown op `shift`: not in the table of capturable ops"
    pair.assert_graphed()


def test_A10_hidden_mutation_of_an_op_vouched_for() -> None:
    """The capture notices an undeclared write of an op that somebody vouched for, and every call stays right."""

    def shift(a: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * 2

    symbol, jit = operator(shift, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: symbol(x) + 1, jit=jit, capturable={"shift"})
    with warnings_of_the_transform() as said:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(4),), seed)
    assert len(said) == 1 and "an op writes an input" in said[0]
    assert pair.ungraphed(Refusal.HIDDEN_WRITE) == CALLS - 1


def test_A11_argument_returned_unchanged() -> None:
    """A returned argument is the caller's own object, whose later writes show, and earlier ones are not touched."""
    pair = Pair(lambda x: (x, x + 1))
    earlier = []
    for seed in range(CALLS):
        x = randn(4)
        itself, _ = pair.graphed(x)
        assert itself is x
        earlier.append((itself, x.clone()))
        pair.agree(lambda: (randn(4),), seed)
    for itself, value in earlier:
        assert_same(itself, value)
    pair.assert_graphed()


def test_A12_results_that_share_memory() -> None:
    """Duplicates, views of results and views of arguments share memory as without graphs, and writes show through."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, y, y.view(-1), y[1:], x.view(-1), x[0]

    pair = Pair(fn)

    def write_through(jitted: Any) -> Any:
        x = randn(4, 4)
        results = jitted(x)
        for k, result in enumerate(results):
            result.mul_(k + 2)
        return results, x

    for seed in range(CALLS):
        pair.agree(lambda: (randn(4, 4),), seed)
        pair.do(write_through, seed)
    pair.assert_graphed()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("in_place_after", [1, None])
def test_A12_detached_results(grad: bool, in_place_after: int | None) -> None:
    """A detached argument or result, and a view of one, requires no gradient, and is a view where it would be."""

    def of_argument(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.detach(x)
        y.mul_(2)
        return y, y.t()

    def of_result(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.detach(x) * 2
        y.add_(1)
        z = torch.detach(y)
        z.add_(1)
        return y, z, z.t(), y.t()

    def without_owner(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.detach(x) * 2
        y.add_(1)
        return torch.detach(y[1:]), y[:1]

    def call(jitted: Any) -> Any:
        x = randn(3, 3).requires_grad_(grad)
        results = jitted(x)
        return results, x, [result._is_view() for result in results]

    for fn in (of_argument, of_result, without_owner):
        pair = Pair(fn, in_place_after=in_place_after)
        for seed in range(CALLS):
            pair.do(call, seed)
        pair.assert_graphed()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("in_place_after", [1, None])
def test_A12_views_without_elements(grad: bool, in_place_after: int | None) -> None:
    """A view of an argument that lies nowhere requires a gradient where the argument does; detached, it does not."""

    def fn(x: torch.Tensor, empty: torch.Tensor, counts: torch.Tensor) -> tuple[torch.Tensor, ...]:
        counts.add_(1)
        return empty.t(), x[:0], torch.detach(empty).t(), torch.detach(empty), empty * 2

    def call(jitted: Any) -> Any:
        x, empty = randn(3, 4).requires_grad_(grad), randn(0, 4).requires_grad_(grad)
        counts = torch.zeros(1, dtype=torch.int64, device="cuda")
        with torch.no_grad():
            return jitted(x, empty, counts), counts

    pair = Pair(fn, in_place_after=in_place_after)
    for seed in range(CALLS):
        pair.do(call, seed)
    pair.assert_graphed()


@pytest.mark.parametrize("rounding", [torch.floor, torch.ceil, torch.trunc, torch.round])
def test_A13_rounded_integers_taken_for_an_alias(rounding: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Integers rounded are a copy, also where Thunder decomposes the op to nothing: a write to it ends there."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = rounding(x)
        y.add_(1)
        return x + y, y

    pair = Pair(fn)
    for seed in range(CALLS):
        pair.agree(lambda: (torch.arange(4, device="cuda") * 3,), seed)
    pair.assert_graphed()


def test_A13_clone_taken_for_an_alias() -> None:
    """Writing a clone leaves the original alone."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.clone()
        y.sin_()
        return x + y, y

    pair = Pair(fn)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4),), seed)
    pair.assert_graphed()


def test_A14_several_copies_to_one_destination() -> None:
    """Two writes to one tensor with reads between happen in program order, and the last one stays."""

    def fn(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = t.sin()
        t.copy_(a)
        b = t.cos() + 1
        t.copy_(b)
        return a, b, t * 2

    pair = Pair(fn)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4),), seed)
    pair.assert_graphed()


@pytest.mark.parametrize(
    ("breaks", "own"),
    [((True, False, False), False), ((False, True, False), False), ((False, True, True), True)],
    ids=["before", "between", "after"],
)
def test_A15_stale_name_after_a_write_through_a_view(breaks: tuple[bool, ...], own: bool) -> None:
    """A write through a view is read through the base, with a region break before, between or after."""

    def fn(x: torch.Tensor) -> Any:
        x = x * 1.5 if own else x
        first = x.sum().item() if breaks[0] else 0.0
        y = x[0]
        y.add_(1)
        second = x.sum().item() if breaks[1] else 0.0
        z = x * 2
        third = z.sum().item() if breaks[2] else 0.0
        return z, y * 3, first, second, third

    pair = Pair(fn)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(3, 3),), seed)
    pair.assert_graphed()


LAYOUTS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda t: t[:16].view(4, 4),
    lambda t: t[:16].view(4, 4).t(),
    lambda t: t[:32].view(4, 8)[:, ::2],
    lambda t: t[:4].expand(4, 4),
    lambda t: t[:4].view(4, 1).expand(4, 4),
    lambda t: t[1:17].view(4, 4),
    lambda t: t.as_strided((4, 4), (2, 1)),
]


def test_A16_layouts_of_static_buffers() -> None:
    """Contiguous, transposed, gapped, expanded, offset and overlapping layouts of one size, in turn, each its graph."""
    pair = Pair(lambda x: (x * 2 + 1, x.sum(0), x @ x))
    for seed in range(CALLS):
        for layout in LAYOUTS:
            pair.agree(lambda layout=layout: (layout(randn(40)),), seed)
    pair.assert_graphed(captures=len(LAYOUTS))


def test_A16_channels_last() -> None:
    """A convolution's argument in channels-last order keeps its order in the graph, and so does the result."""
    conv = nn.Conv2d(2, 3, 3).to("cuda").requires_grad_(False)
    pair = Pair(conv)
    for seed in range(CALLS):
        for order in (torch.contiguous_format, torch.channels_last):
            pair.agree(lambda order=order: (randn(2, 2, 5, 5).contiguous(memory_format=order),), seed)
    pair.assert_graphed(captures=2)


def test_A17_expanded_and_overlapping_inputs() -> None:
    """Inputs that name one element twice, and size-1 dimensions with odd strides, are copied in."""
    pair = Pair(lambda x: x * 2 + x.sum())
    layouts: list[Callable[[], torch.Tensor]] = [
        lambda: randn(1, 8).expand(4, 8),
        lambda: randn(8 * 20).as_strided((8, 15, 1), (20, 1, 1)),
        lambda: randn(10).as_strided((3, 4), (2, 1)),
        lambda: randn(8).as_strided((1, 8), (3, 1)),
    ]
    for make in layouts:
        for seed in range(CALLS):
            pair.agree(lambda make=make: (make(),), seed)
    pair.assert_graphed(captures=len(layouts))


def test_A17_writes_to_overlapping_memory_run_ungraphed() -> None:
    """A written argument that overlaps itself is no argument for a graph: what happens is what happens without."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    pair = Pair(fn)
    for seed in range(CALLS):
        outcomes = []
        for jitted in pair.sides:
            torch.manual_seed(seed)
            x = randn(4).expand(3, 4)
            with pytest.raises(RuntimeError) as error:
                jitted(x)
            outcomes.append((str(error.value), x))
        assert_same(*outcomes)
    assert pair.ungraphed(Refusal.OVERLAP) == CALLS


@pytest.mark.parametrize("written", [False, True])
def test_A18_alignment_of_an_argument(written: bool) -> None:
    """Arguments at different addresses modulo 16 bytes have graphs of their own; writes land in the caller's memory."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        if written:
            x.mul_(3)
        return (x * x).sum() + x

    pair = Pair(fn)
    for seed in range(CALLS):
        for offset in range(5):

            def make(offset: int = offset) -> tuple[torch.Tensor]:
                return (randn(20)[offset : offset + 12],)

            pair.agree(make, seed)
    pair.assert_graphed(captures=4)


def test_A19_padding_leaks() -> None:
    """Batches that shrink and grow again are never padded: reductions over the batch see their own rows."""
    pair = Pair(lambda x: (x.sum(0), torch.softmax(x, 0), x.cumsum(0)))
    for seed in range(CALLS):
        for size in (8, 5, 8, 3):
            pair.agree(lambda size=size: (randn(size, 2),), seed)
    pair.assert_graphed(captures=3)


def test_A19_optional_tensor_left_out() -> None:
    """A call without a mask does not see the mask of the call before."""

    def fn(x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return torch.softmax(x if mask is None else x + mask, -1)

    pair = Pair(fn)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4, 4), randn(4, 4)), seed)
        pair.agree(lambda: (randn(4, 4), None), seed)
        pair.agree(lambda: (randn(4, 4),), seed)
    pair.assert_graphed()


def test_A20_garbage_in_static_buffers() -> None:
    """Kernels that index with an input meet the caller's values from the first call on, next to the upper bound too."""

    def fn(weights: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return functional.embedding(index, weights), torch.gather(weights, 0, index.view(-1, 1)), weights[index]

    pair = Pair(fn)
    randn(256).fill_(float("nan"))  # what fresh memory holds if nobody fills it
    for seed in range(CALLS):
        pair.agree(lambda: (randn(5, 3), 4 - torch.randint(2, (6,), device="cuda")), seed)
    pair.assert_graphed(captures=1)
