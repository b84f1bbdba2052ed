"""Leases: what is saved for the backward stays in graph memory, and no replay overwrites what somebody still holds.

Each story is told with graphs and without, and then with a check of leases that is wrong: what comes out has to be the
same first, and different then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from cgverify.emulation import EmulatedCUDA
from cgverify.runtime import graph as graph_module
from cgverify.runtime import pool as pool_module
from cgverify.runtime.cache import EntryKey
from cgverify.runtime.guards import Refusal
from cgverify.runtime.leases import Lender, Lending, find_blocker, prune
from tests.faults.pairs import Pair, detached, operator, randn, step
from tests.faults.test_e import run_in_threads

import pytest
import torch
from thunder.core.proxies import TensorProxy
from torch.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def poisoned(cuda: EmulatedCUDA | None) -> None:
    """Freed memory is full of NaN, at replay too, where the device is emulated."""
    if cuda is not None:
        cuda.poison = True


def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Saves values that the caller never gets, and has scratch memory left where it ends."""
    return (torch.tanh(torch.sin(x @ w) * x) * 2 + 1).sum(0)


def leaf(*shape: int) -> torch.Tensor:
    return randn(*shape).requires_grad_()


def two_forwards(jitted: Any, *, swap: bool = False) -> Any:
    """Two forwards, then their backwards."""
    x, w = [leaf(4, 4), leaf(4, 4)], leaf(4, 4)
    losses = [jitted(one, w).sum() for one in x]
    for loss in losses[::-1] if swap else losses:
        loss.backward()
    return detached(losses), [one.grad for one in x], w.grad


def two_forwards_swapped(jitted: Any) -> Any:
    """Two forwards, then their backwards, the second first."""
    return two_forwards(jitted, swap=True)


def warm(jitted: Any) -> None:
    """Captures forward and backward."""
    for _ in range(3):
        step(jitted, leaf(4, 4), leaf(4, 4))


def kept_loss(jitted: Any) -> Any:
    """A loss that is kept over other steps, and gets its backward after them."""
    warm(jitted)
    x, w = leaf(4, 4), leaf(4, 4)
    loss = jitted(x, w).sum()
    others = [step(jitted, leaf(4, 4), leaf(4, 4)) for _ in range(3)]
    loss.backward()
    return others, loss.detach(), x.grad, w.grad


def saved_tensors_read_later(jitted: Any) -> Any:
    """What autograd saved, held while its function runs again and after."""
    warm(jitted)
    y = jitted(leaf(4, 4), leaf(4, 4))
    saved = [tensor.detach() for tensor in y.grad_fn.saved_tensors]
    later = step(jitted, leaf(4, 4), leaf(4, 4))
    del y
    return saved, later, step(jitted, leaf(4, 4), leaf(4, 4)), saved


def retained_graph(jitted: Any) -> Any:
    """A graph that is retained goes backward twice, and once more after another step."""
    warm(jitted)
    x, w = leaf(4, 4), leaf(4, 4)
    loss = jitted(x, w).sum()
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)
    twice = x.grad.clone(), w.grad.clone()
    other = step(jitted, leaf(4, 4), leaf(4, 4))
    loss.backward()
    return twice, other, x.grad, w.grad


def alternating_shapes(jitted: Any) -> Any:
    """Forwards of two shapes, in both orders, before the backwards."""
    results = []
    for shapes in ((4, 6), (6, 4), (4, 6), (6, 4)):
        x, w = [leaf(n, 4) for n in shapes], leaf(4, 4)
        losses = [jitted(one, w).sum() for one in x]
        for loss in losses:
            loss.backward()
        results += [detached(losses), [one.grad for one in x], w.grad]
    return results


def accumulation(jitted: Any) -> Any:
    """Gradients of four micro-batches add up."""
    w = leaf(4, 4)
    for _ in range(4):
        jitted(leaf(4, 4), w).sum().backward()
    return w.grad


def checkpointed(jitted: Any) -> Any:
    """A checkpoint around the function runs its forward again in the backward."""
    w = leaf(4, 4)
    results = []
    for _ in range(4):
        x = leaf(4, 4)
        checkpoint(jitted, x, w, use_reentrant=False).sum().backward()
        results += [x.grad, w.grad.clone()]
    return results


def unchecked(lenders: Sequence[Lender], serial: int) -> Lender | None:
    """Looks after no lease."""
    return None


def own_only(lenders: Sequence[Lender], serial: int) -> Lender | None:
    """Looks after the leases of the graph that is to replay."""
    return next((lender for lender in lenders if lender.serial == serial and lender.is_out()), None)


def younger_only(lenders: Sequence[Lender], serial: int) -> Lender | None:
    """Looks after the leases of other graphs."""
    return find_blocker(lenders, serial + 1)


Check = Callable[[Sequence[Lender], int], Lender | None]
STORIES: dict[Callable[[Any], Any], tuple[Check, ...]] = {
    two_forwards: (unchecked, younger_only),
    two_forwards_swapped: (unchecked, younger_only),
    kept_loss: (unchecked, younger_only),
    saved_tensors_read_later: (unchecked, younger_only),
    retained_graph: (unchecked, younger_only),
    alternating_shapes: (unchecked, own_only),
    accumulation: (),
    checkpointed: (),
}


def tell(story: Callable[[Any], Any], pair: Pair) -> None:
    """Tells a story four times, with other numbers each time."""
    for seed in range(4):
        pair.do(story, seed)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_whoever_holds_a_lease_keeps_it(story: Callable[[Any], Any]) -> None:
    """Results and gradients are those without graphs, bit for bit, and leases were handed out."""
    pair = Pair(fn)
    tell(story, pair)
    pair.assert_graphed()
    assert pair.transform.stats().leases > 0
    assert (pair.ungraphed(Refusal.LENT) > 0) == bool(STORIES[story])


@pytest.mark.parametrize(
    ("story", "check"),
    [(story, check) for story, checks in STORIES.items() for check in checks],
    ids=lambda function: function.__name__,
)
def test_a_story_shows_who_looks_after_leases_badly(story: Callable[[Any], Any], check: Check) -> None:
    """With a check that overlooks leases some result or gradient of the story is wrong."""
    with mock.patch.object(graph_module, "find_blocker", check), pytest.raises(AssertionError):
        tell(story, Pair(fn))


def test_a_thread_holds_its_leases_while_another_runs(cuda: EmulatedCUDA | None) -> None:
    """A thread goes forward and backward between the forward and the backward of another; both are right."""
    pair = Pair(fn)

    def act(jitted: Any) -> Any:
        warm(jitted)
        x, w, others = leaf(4, 4), leaf(4, 4), [(leaf(4, 4), leaf(4, 4)) for _ in range(3)]
        loss = jitted(x, w).sum()
        found: list[Any] = []

        def work() -> None:
            randn(1)  # a thread's first product warns of a missing context, unless something ran before it
            found.extend(step(jitted, *other) for other in others)

        run_in_threads(cuda, [work])
        loss.backward()
        return found, x.grad, w.grad

    tell(act, pair)
    pair.assert_graphed()
    assert pair.ungraphed(Refusal.LENT) > 0


def older(x: torch.Tensor) -> torch.Tensor:
    """Much scratch memory."""
    for _ in range(3):
        x = torch.cos(torch.exp(x).sin() * 2) + x
    return x


class WithOlder:
    """`fn` and, captured before it in the same pool, `older`."""

    def __init__(self, **options: Any) -> None:
        self.first = Pair(older, **options)
        for seed in range(2):
            self.first.agree(lambda: (randn(4, 4),), seed)
        self.pair = Pair(fn, transform=self.first.transform)

    def call_older(self, jitted: Any) -> torch.Tensor:
        """A call of `older` on the side of `jitted`."""
        return (self.first.graphed if jitted is self.pair.graphed else self.first.plain)(randn(4, 4))


def one_between(told: WithOlder, jitted: Any) -> Any:
    """The older function runs between forward and backward."""
    warm(jitted)
    x, w = leaf(4, 4), leaf(4, 4)
    loss = jitted(x, w).sum()
    between = told.call_older(jitted)
    loss.backward()
    return between, x.grad, w.grad


def after_its_graph(told: WithOlder, jitted: Any) -> Any:
    """The second of two forwards drops the graph of the first; then the older function runs."""
    warm(jitted)
    x, w = [leaf(4, 4), leaf(4, 4)], leaf(4, 4)
    losses = [jitted(one, w).sum() for one in x]
    between = told.call_older(jitted)
    for loss in losses:
        loss.backward()
    return between, [one.grad for one in x], w.grad


def forget_closed(lenders: list[Lender]) -> None:
    """Forgets the leases of graphs that are gone."""
    lenders[:] = [lender for lender in lenders if lender.kept]


@pytest.mark.parametrize(
    ("story", "module", "name", "fault"),
    [
        (one_between, graph_module, "find_blocker", own_only),
        (after_its_graph, graph_module, "find_blocker", own_only),
        (after_its_graph, pool_module, "prune", forget_closed),
    ],
)
def test_an_older_graph_does_not_overwrite_leases(story: Any, module: Any, name: str, fault: Any) -> None:
    """A graph of another function, captured before, gives way once; with a faulty check a gradient is wrong."""
    told = WithOlder()
    for seed in range(3):
        told.pair.do(lambda jitted: story(told, jitted), seed)
    assert told.first.ungraphed(Refusal.LENT) == (1 if story is one_between else 2)
    told = WithOlder()
    with mock.patch.object(module, name, fault), pytest.raises(AssertionError):
        told.pair.do(lambda jitted: story(told, jitted))


@pytest.mark.parametrize("drop", ["reset", "evict"])
def test_a_lease_outlives_its_graph(drop: str) -> None:
    """Between forward and backward the graph is dropped by `reset` or by others that are captured; gradients stay."""
    told = WithOlder(max_graphs=3)
    others = [Pair(lambda x: older(x) * 2, transform=told.first.transform) for _ in range(2)]

    def act(jitted: Any) -> Any:
        results = []
        for other in others:
            warm(jitted)
            x, w = leaf(4, 4), leaf(4, 4)
            loss = jitted(x, w).sum()
            if drop == "reset":
                told.first.transform.reset()
            results += [other.graphed(randn(n, 4)) for n in (4, 5) for _ in range(2)]
            loss.backward()
            results += [loss.detach(), x.grad, w.grad, told.call_older(jitted)]
        return results

    for seed in range(2):
        told.pair.do(act, seed)
    assert told.first.transform.stats().leases > 0


def test_a_replay_waits_for_the_streams_that_got_leases() -> None:
    """Un-graphed work may still read a lease on the stream that got it, although other graphs ran elsewhere since."""
    told = WithOlder()
    jitted = told.pair.graphed
    warm(jitted)
    got, between, later = (torch.cuda.Stream() for _ in range(3))
    waits: list[tuple[int, int]] = []
    wait = type(got).wait_stream

    def noted(self: Any, stream: Any) -> None:
        waits.append((self.cuda_stream, stream.cuda_stream))
        wait(self, stream)

    torch.cuda.synchronize()
    with mock.patch.object(type(got), "wait_stream", noted):
        with torch.cuda.stream(got):
            y = jitted(leaf(4, 4), leaf(4, 4))
        with torch.cuda.stream(between):
            for _ in range(3):  # gives way, is captured again, replays
                told.call_older(jitted)
        del y
        waits.clear()
        with torch.cuda.stream(later):
            jitted(leaf(4, 4), leaf(4, 4))
        assert {(later.cuda_stream, stream.cuda_stream) for stream in (got, between)} <= set(waits)
        waits.clear()
        with torch.cuda.stream(between):
            told.call_older(jitted)
        assert (between.cuda_stream, got.cuda_stream) not in waits


def test_one_graph_at_a_time() -> None:
    """With `max_graphs=1` forward and backward drop each other's graphs, and every gradient is right."""
    pair = Pair(fn, max_graphs=1)
    for seed in range(8):
        pair.do(lambda jitted: step(jitted, leaf(4, 4), leaf(4, 4)), seed)
    pair.assert_graphed()
    assert pair.transform.stats().graphs == 1


def test_a_storage_that_is_held_by_itself_is_a_lease() -> None:
    """The Python object of a saved tensor's storage keeps the memory, without any tensor."""
    pair = Pair(fn)
    warm(pair.graphed)
    y = pair.graphed(leaf(4, 4), leaf(4, 4))
    storages = [tensor.untyped_storage() for tensor in y.grad_fn.saved_tensors]
    before = [bytes(storage.cpu()) for storage in storages]
    del y
    warm(pair.graphed)
    assert [bytes(storage.cpu()) for storage in storages] == before


def test_what_the_caller_gets_is_no_lease() -> None:
    """Results, gradients and what they are views of lie outside graph memory, however long they are held."""
    pair = Pair(lambda x, w: (torch.tanh(x @ w), torch.sin(x @ w)[1]))
    held = []
    for _ in range(4):
        x, w = leaf(4, 4), leaf(4, 4)
        one, other = pair.graphed(x, w)
        (one.sum() + other.sum()).backward()
        held += [one.detach(), other.detach(), x.grad, w.grad]
    assert len({tensor.untyped_storage().data_ptr() for tensor in held}) == len(held)
    assert pair.ungraphed(Refusal.LENT) == 0


def test_values_between_regions_are_lent() -> None:
    """What later ops alone use is lent, to a region too; copied are the argument, a clone by the host, the result."""

    def host(a: torch.Tensor) -> torch.Tensor:
        return a.clone()

    symbol, jit = operator(host, lambda a: TensorProxy(like=a))

    def fn(x: torch.Tensor) -> torch.Tensor:
        a = torch.sin(x * 2)
        return torch.cos(a) * symbol(torch.exp(x))

    pair = Pair(fn, jit=jit)
    for seed in range(4):
        pair.agree(lambda: (randn(4, 4),), seed)
    stats = pair.transform.stats()
    assert (stats.captures, stats.replays, stats.copies, stats.leases) == (2, 6, 9, 6)


class Pruning(Lender):
    """A lender of a closed graph; where its leases are asked for, a garbage collection prunes the list."""

    def __init__(self, lenders: list[Lender], serial: int, *, out: bool) -> None:
        super().__init__(EntryKey(0, serial), Lending())
        self.serial = serial
        self._lenders, self._is_out = lenders, out

    def is_out(self) -> bool:
        """Whether it was told so."""
        lenders, self._lenders = self._lenders, []
        prune(lenders)
        return self._is_out


def pruning(out: int) -> list[Lender]:
    """Lenders 1, 2 and 3, of which one is out."""
    lenders: list[Lender] = []
    lenders += [Pruning(lenders, serial, out=serial == out) for serial in (1, 2, 3)]
    return lenders


def test_no_lease_is_overlooked_where_lenders_are_pruned_on_the_way() -> None:
    """The lender that is out blocks, and stays in the list, though asking the others for their leases prunes that."""
    lenders = pruning(out=1)
    oldest = lenders[0]
    assert find_blocker(lenders, 1) is oldest
    lenders = pruning(out=3)
    youngest = lenders[-1]
    prune(lenders)
    assert lenders == [youngest]


def test_hooks_on_saved_tensors_get_copies() -> None:
    """What a hook takes is no graph memory, since it may be read on a stream that nobody knows; else it is a lease."""
    pair = Pair(fn)
    warm(pair.graphed)
    runtime, taken = pair.transform._runtime, []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        taken.append((tensor.clone(), tensor, runtime.is_lent("cuda:0", tensor)))
        return tensor

    x, w = leaf(4, 4), leaf(4, 4)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss = pair.graphed(x, w).sum()
    assert taken and not any(lent for *_, lent in taken)
    for _ in range(2):
        pair.graphed(leaf(4, 4), leaf(4, 4)).sum().backward()
    assert all(torch.equal(before, now) for before, now, _ in taken)
    loss.backward()
    expected = [leaf.grad for leaf in (x, w)]
    x.grad = w.grad = None
    pair.plain(x, w).sum().backward()
    assert all(map(torch.equal, [x.grad, w.grad], expected))
