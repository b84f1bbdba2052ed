"""The soak and the demonstrations: right on the emulation, and quick to say so when something is not."""

from __future__ import annotations

import threading
import time
from typing import Any

from cgverify.bench import demonstrations, soak
from cgverify.bench.demonstrations import DEMONSTRATIONS, Demonstration, run_demonstration
from cgverify.bench.soak import Memory, Soak, run_soak, soak_device
from cgverify.bench.soak_histories import Calls, Sides

import pytest
import torch

Output = pytest.CaptureFixture[str]


def test_threads_and_streams_find_nothing_wrong(cuda: Any) -> None:
    """Every history is stepped on three threads and two streams; graphs are replayed, nothing differs."""
    done, transform, _ = soak_device(seconds=3.0, threads=3, streams=2, sizes=(2, 5))
    assert done.faults == []
    assert set(done.steps) == {history.name for history in done.histories}
    assert transform.stats().replays > 0
    assert transform.stats().graphs <= soak.MAX_GRAPHS


class OverwritesItsResult(threading.local):
    """Hands out the same memory on each call; each thread has its own, or the call itself would see another's."""

    def __init__(self) -> None:
        self.memory = torch.empty(0, device="cuda")

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.memory.shape != x.shape:
            self.memory = torch.empty_like(x)
        return self.memory.copy_(x)


@pytest.mark.parametrize(
    ("graphed", "found"),
    [
        (lambda x: x + 1, "broken: result 0 differs by up to 1"),
        (lambda x: x.t().contiguous().t(), "broken: result 0 has another dtype, shape or layout"),
        (lambda x: [x, x], "broken: 2 results in place of 1"),
        (OverwritesItsResult, "a result kept from an earlier call: result 0 differs"),
        (lambda x: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
    ids=["value", "layout", "count", "overwritten", "raises"],
)
def test_what_is_wrong_ends_the_soak(cuda: Any, graphed: Any, found: str) -> None:
    """A side that differs, raises, or changes what it handed out is reported, and the threads stop."""
    graphed = graphed() if isinstance(graphed, type) else graphed
    broken = Calls("broken", Sides(graphed, lambda x: x.clone()))
    case = Soak([broken], [torch.cuda.Stream()], (3,), time.monotonic() + 60.0)
    run_soak(case, threads=2, seconds=60.0)
    assert time.monotonic() < case.end
    assert found in case.faults[0]


def test_memory_grows_after_the_first_part_only_if_its_peak_does() -> None:
    """A later peak above the first one is growth; a lower one is none."""
    assert Memory(8, 10).grown == 2
    assert Memory(10, 8).grown == 0


def test_every_demonstration_is_as_promised(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """Values of `item` cost one capture, numbers and shapes no more graphs than allowed, and the exit code is 0."""
    monkeypatch.setattr(demonstrations, "MAX_GRAPHS", 2)
    assert demonstrations.main(["--device", "emulated", "--values", "3"]) == 0
    out = capsys.readouterr().out
    assert out.count("as promised") == len(DEMONSTRATIONS)
    assert "values of item: 15 values, 1 captures, at most 1 graphs alive" in out
    assert "shapes: 3 values, 3 captures, at most 2 graphs alive" in out


def test_a_demonstration_that_fails_says_why(cuda: Any) -> None:
    """A capture per value where one is allowed is a fault, and so is a function that is never graphed."""
    shapes = Demonstration(
        "", lambda x: x.sin() + 1, lambda k: (torch.ones(2 + k, device="cuda"),), "constant values", 1
    )
    assert run_demonstration(shapes, 2).faults == ("more than 1 captures",)
    host = Demonstration("", lambda x: x.sin() + 1, lambda k: (torch.ones(2),), "constant values")
    assert run_demonstration(host, 1).faults == ("nothing was captured",)
