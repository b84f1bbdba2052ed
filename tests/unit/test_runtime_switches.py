"""What a user can turn: calls without graphs, copies of a transform, and the warnings of captures that do not pay."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace
from typing import Any

import cgverify
from cgverify import CUDAGraphTransform
from cgverify.plan import InputRole, Region, RegionInput
from cgverify.runtime import storm
from cgverify.runtime.guards import Refusal
from cgverify.runtime.storm import CAPTURES, REPLAYS, CaptureWatch, describe_thrash
from tests.faults.pairs import CALLS, Pair, randn, step, warnings_of_the_transform

import pytest
import torch

pytestmark = pytest.mark.usefixtures("cuda")


def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w).sum(0)


def leaf(*shape: int) -> torch.Tensor:
    return randn(*shape).requires_grad_()


def test_calls_in_the_block_run_ungraphed() -> None:
    """Forward and backward of a call in the block replay nothing; a call after it replays what was captured before."""
    pair = Pair(fn)

    def act(jitted: Any) -> Any:
        return step(jitted, leaf(4, 4), leaf(4, 4))

    for seed in range(CALLS):
        pair.do(act, seed)
    before = pair.transform.stats()
    with cgverify.ungraphed(), cgverify.ungraphed():
        pair.do(act)
    with_block = pair.transform.stats()
    pair.do(act)
    assert pair.ungraphed(Refusal.OPTED_OUT) == 2
    assert with_block.replays == before.replays
    assert pair.transform.stats().replays == before.replays + 2
    assert pair.transform.stats().captures == before.captures


def test_a_decorated_function_runs_ungraphed_and_others_do_not() -> None:
    """`ungraphed()` decorates a function; what raises in it closes the block too."""
    pair = Pair(fn)

    @cgverify.ungraphed()
    def evaluate(jitted: Any, x: Any) -> Any:
        return jitted(x, torch.ones(4, 4, device="cuda"))

    for _ in range(CALLS):
        pair.do(lambda jitted: evaluate(jitted, randn(4, 4)))
    assert pair.transform.stats().captures == 0
    with pytest.raises(AttributeError, match="ndim"):
        evaluate(pair.graphed, "x")
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4, 4), randn(4, 4)), seed)
    pair.assert_graphed(captures=1)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_a_copy_is_the_settings_alone(copied: Any) -> None:
    """A copied or pickled transform works like the original, with graphs and counts of its own."""
    pair = Pair(fn, max_graphs=3, check="first", capturable={"mine"}, comments=True)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4, 4), randn(4, 4)), seed)
    other = copied(pair.transform)
    assert type(other) is CUDAGraphTransform
    assert (other.stats().captures, other.report().plans) == (0, ())
    again = Pair(fn, transform=other)
    for seed in range(CALLS):
        again.agree(lambda: (randn(4, 4), randn(4, 4)), seed)
    # how many bytes are held depends on what the allocator had left
    assert replace(other.stats(), bytes_held=0) == replace(pair.transform.stats(), bytes_held=0)
    assert "max_graphs=3" in repr(other) and repr(other) == repr(pair.transform)


def test_a_storm_of_strides_is_warned_of_once() -> None:
    """A region that is captured for each of many layouts says so once, with the input, what changes, and a remedy."""
    pair = Pair(lambda x: torch.exp(x) + 1)
    base = randn(4, 4 * (CAPTURES + 3))
    with warnings_of_the_transform() as said:
        for step in range(1, CAPTURES + 4):
            for _ in range(2):
                pair.agree(lambda step=step: (base[:, : 4 * step : step],))
    assert len(said) == 1
    assert f"captured {CAPTURES + 1} times" in said[0]
    assert "the strides of `x` changed; pass one layout" in said[0]


def test_graphs_dropped_before_they_are_of_use_are_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """More shapes than graphs may be alive, each called twice: the warning names the limit, and comes once."""
    pair = Pair(lambda x: torch.exp(x) + 1, max_graphs=2)
    monkeypatch.setattr(storm, "TURNOVER", 8)
    with warnings_of_the_transform() as said:
        for size in range(1, 12):
            for _ in range(2):
                pair.graphed(torch.ones(size, device="cuda"))
    assert len(said) == 1
    assert "9 graphs were captured and replayed 8 times" in said[0] and "max_graphs" in said[0]


REGION = Region(
    "CUDAGraph0",
    (0,),
    tuple(RegionInput(name, InputRole.COPIED, False) for name in ("a", "b", "c", "d")),
    (),
    "cuda:0",
    False,
)


def described(call: int, part: int, changing: range) -> Any:
    """A description in which one part of some inputs differs from call to call."""
    return ("tf32", *(tuple(call if p == part and k in changing else 0 for p in range(4)) for k in range(4)))


@pytest.mark.parametrize(
    ("part", "changing", "words"),
    [
        (1, range(1), "the shape of `a` changed; pad"),
        (3, range(1, 3), "the address of `b`, `c` changed; keep"),
        (0, range(4), "the dtype of `a`, `b`, `c` and 1 more changed; pass one dtype"),
        (2, range(0), "nothing that is seen changed; raise"),
    ],
)
def test_a_watch_names_what_changes(part: int, changing: range, words: str) -> None:
    """The part of the description that differs between entries is put in words, the inputs by name."""
    watch = CaptureWatch(REGION)
    said = [watch.note(described(call, part, changing), call) for call in range(CAPTURES + 5)]
    assert [k for k, message in enumerate(said) if message] == [CAPTURES]
    assert words in (said[CAPTURES] or "")


def test_a_watch_names_switches() -> None:
    """Entries that differ in the process's switches alone are put down to these."""
    watch = CaptureWatch(REGION)
    said = [watch.note((call, *[(0, 0, 0, 0)] * 4), 0) for call in range(CAPTURES + 1)]
    assert "a switch of torch.backends changed; set it once" in (said[-1] or "")


def test_captures_that_pay_are_no_storm() -> None:
    """Graphs that are replayed often enough are not warned of, however many they are."""
    watch = CaptureWatch(REGION)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not any(watch.note(described(k, 1, range(4)), REPLAYS * (k + 1)) for k in range(4 * CAPTURES))
        assert not any(describe_thrash(k, REPLAYS * k, 2) for k in range(2 * storm.TURNOVER))
