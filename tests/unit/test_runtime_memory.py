"""Memory: what a training step needs with leases, the room a capture gets, and the footprint it is made for."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from unittest import mock

from cgverify import CUDAGraphTransform
from cgverify.emulation import EmulatedCUDA
from cgverify.runtime import region as region_module
from cgverify.runtime.leases import Lending
from cgverify.runtime.room import FEW, LARGE, SLACK, Room
from cgverify.transform import footprint
from tests.builders import TraceBuilder

import pytest
import thunder
import torch
from torch import nn

MIB = 1 << 20


class Net(nn.Module):
    """Four layers, each of which saves several values of 1 MiB."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(torch.sin(layer(x)) * torch.cos(x))
        return x.sum()


def peaks(prepare: Callable[[nn.Module], Any]) -> tuple[int, int]:
    """Peaks of reserved and of allocated bytes in later training steps, on a device of their own."""
    with EmulatedCUDA():
        net, x = Net().to("cuda"), torch.ones(512, 512, device="cuda")
        function = prepare(net)
        for call in range(5):
            if call == 3:
                gc.collect()
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            function(x).backward()
            net.zero_grad()
        return torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated()


def graphed(net: nn.Module) -> Any:
    return thunder.jit(net, transforms=[CUDAGraphTransform()])


def test_a_training_step_needs_saved_tensors_once() -> None:
    """With leases the peak is eager's, the copied input, fresh gradients and 15 %; with copies it is twice that."""
    _, eager = peaks(lambda net: net)
    reserved, allocated = peaks(graphed)
    with mock.patch.object(region_module, "Lending", lambda: Lending(allowed=False)):
        copied_reserved, copied_allocated = peaks(graphed)
    assert allocated <= 1.15 * eager + 5 * MIB + 4 * 2048
    assert copied_allocated >= 1.9 * allocated
    assert copied_reserved >= 1.7 * reserved


def fragmenting(x: torch.Tensor) -> torch.Tensor:
    """Takes 3 x 12 MiB, gives them back, then takes 24 MiB in one piece."""
    a, b = x + 1, x * 2
    c = (a * b).sum() + (a + b).sum()
    return torch.cat([x, x]).mul(c).sum()


@pytest.mark.parametrize("made", [True, False])
def test_a_capture_gets_one_segment(made: bool) -> None:
    """Large requests of a capture are cut out of one segment of the pool, and what is free merges again."""
    with EmulatedCUDA() as cuda, mock.patch.object(Room, "make", Room.make if made else lambda self, needs: None):
        jitted = thunder.jit(fragmenting, transforms=[CUDAGraphTransform()])
        x = torch.ones(3 * MIB, device="cuda")
        results = [jitted(x).item() for _ in range(3)]
        assert len(set(results)) == 1
        pools = cuda.memory.allocator.segments()
        sizes = sorted(segment.size // MIB for pool, segment, _ in pools if pool.id != (0, 0) and segment.size > LARGE)
    assert sizes == ([54] if made else [12, 12, 12, 24, 24])


def test_room_is_made_once_for_graphs_that_fit() -> None:
    """Room made for one graph serves the next, less what results keep; small needs, and too large ones, make none."""
    with EmulatedCUDA(capacity=256 * MIB):
        room = Room(torch.device("cuda:0"))
        made = []
        for needs, kept in ((FEW - 1, 0), (40 * MIB, 30 * MIB), (15 * MIB, 0), (16 * MIB, 0), (400 * MIB, 0)):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            room.make(needs)
            made.append(torch.cuda.max_memory_allocated() // MIB)
            room.keep(torch.cuda.CUDAGraph(), kept)
        assert made == [0, 46, 0, 18, 0]
        room.forget()
        room.make(16 * MIB)
        assert torch.cuda.max_memory_allocated() // MIB == 18
        room.forget()
        torch.cuda.reset_peak_memory_stats()
        room.make(FEW)
        assert torch.cuda.max_memory_allocated() == LARGE
        assert SLACK == 32 * MIB


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every value counts as a large one."""
    monkeypatch.setattr(footprint, "SMALL", 0)


def needs(build: TraceBuilder, *results: Any) -> int:
    """The footprint of the one region of a trace."""
    transform = CUDAGraphTransform(verify=False)
    transform.rewrite(build.done(*results))
    return transform.report().plans[0].regions[0].needs


@pytest.mark.usefixtures("all_large")
def test_a_footprint_is_the_peak_of_what_lives_at_once() -> None:
    """Values of 64 bytes, rounded to 512: two live at the product; a view and an input take nothing."""
    build = TraceBuilder("x", "y")
    a = build.op("exp", build["x"])
    b = build.op("transpose", a, 0, 1)
    c = build.op("mul", b, build["y"])
    d = build.op("exp", c)
    assert needs(build, build.op("exp", d)) == 2 * 512


@pytest.mark.usefixtures("all_large")
def test_what_leaves_a_region_lives_to_its_end() -> None:
    """Three results live at the end; a view of an input is the caller's."""
    build = TraceBuilder("x")
    a = build.op("exp", build["x"])
    b = build.op("exp", a)
    c = build.op("exp", b)
    assert needs(build, a, b, c, build.op("transpose", build["x"], 0, 1)) == 3 * 512


def test_small_values_need_no_room() -> None:
    """Values of up to 1 MiB are cut out of other segments, and are not counted."""
    build = TraceBuilder("x")
    assert needs(build, build.op("exp", build.op("exp", build["x"]))) == 0
