"""Faults that need a GPU to show: streams without order, alignment, and the precision of kernels (groups A, B, E)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

from cgverify.fuzzing.mutants.base import Mutant
from cgverify.runtime import pool as pool_module
from cgverify.runtime import region as region_module
from cgverify.runtime.graph import CapturedGraph
from cgverify.runtime.pool import Pool

import torch

Tensors = Sequence[torch.Tensor]

DELAY = 2_000_000
"""Clock cycles, about a millisecond, by which one of two streams is late: so that they surely meet the wrong way."""

_capture = Pool.capture


def _aligned_in(store: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    return store.view(tensor.dtype).as_strided(tensor.size(), tensor.stride())


class IgnoredAlignment(Mutant):
    """Static buffers are aligned better than the caller's tensors: kernels vectorise and so sum in another order."""

    faults = ("A18",)
    shows = "gpu"
    in_call = ((pool_module, "buffer_in", _aligned_in),)


class _OnAStreamOfItsOwn(CapturedGraph):
    waits = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._side = torch.cuda.Stream()
        self._right = self._graph
        self._graph = mock.Mock(wraps=self._right, replay=self._replay_aside)

    def _replay_aside(self) -> None:
        assert self._right is not None  # a closed graph has no replay
        if self.waits:
            self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            if self.waits:
                torch.cuda._sleep(DELAY)
            self._right.replay()

    def replay(self, args: Tensors) -> list[torch.Tensor]:
        if not self.waits:
            torch.cuda._sleep(DELAY)
        return super().replay(args)


class ReplayDoesNotWait(Mutant):
    """A replay runs on a stream of its own, and does not wait until its inputs are copied in."""

    faults = ("E04", "E05")
    shows = "gpu"
    in_call = ((region_module, "CapturedGraph", _OnAStreamOfItsOwn),)


class _WaitsForTheCaller(_OnAStreamOfItsOwn):
    waits = True


class ReplayIsNotAwaited(Mutant):
    """A replay runs on a stream of its own, and its results are copied out before it has ended."""

    faults = ("E03", "E05")
    shows = "gpu"
    in_call = ((region_module, "CapturedGraph", _WaitsForTheCaller),)


def _capture_in_tf32(pool: Pool, body: Any, buffers: Tensors, needs: int = 0) -> Any:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        return _capture(pool, body, buffers, needs)
    finally:
        torch.set_float32_matmul_precision(before)


class OtherPrecision(Mutant):
    """Products are captured in TF32, and run un-graphed in full precision."""

    faults = ("B11", "J02")
    shows = "gpu"
    in_call = ((Pool, "capture", _capture_in_tf32),)
