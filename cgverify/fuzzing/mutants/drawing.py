"""Faults of random numbers (group R)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cgverify.fuzzing.mutants.base import Mutant
from cgverify.runtime import region as region_module
from cgverify.runtime.graph import CapturedGraph
from cgverify.runtime.region import GraphedRegion

import torch

Tensors = Sequence[torch.Tensor]

_replay = GraphedRegion._replay


def _replay_with_still_generator(region: GraphedRegion, graph: CapturedGraph, args: Tensors) -> list[torch.Tensor]:
    state = torch.cuda.get_rng_state(region.plan.device)
    results = _replay(region, graph, args)
    torch.cuda.set_rng_state(state, region.plan.device)
    return results


class StillGenerator(Mutant):
    """A replay leaves the generator where it was: the next draw repeats its numbers."""

    faults = ("R01",)
    in_call = ((GraphedRegion, "_replay", _replay_with_still_generator),)


class _Restarting(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._state = torch.cuda.get_rng_state(self.device)

    def replay(self, args: Tensors) -> list[torch.Tensor]:
        before = torch.cuda.get_rng_state(self.device)
        torch.cuda.set_rng_state(self._state, self.device)
        results = super().replay(args)
        if torch.equal(torch.cuda.get_rng_state(self.device), self._state):
            torch.cuda.set_rng_state(before, self.device)
        return results


class RestartedGenerator(Mutant):
    """Every replay that draws starts from where the generator stood at the capture."""

    faults = ("R01", "R02")
    in_call = ((region_module, "CapturedGraph", _Restarting),)


class _DrawingCapture(CapturedGraph):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        torch.rand(1, device=self.device)


class ExtraDraw(Mutant):
    """A capture moves the generator on."""

    faults = ("R04",)
    in_call = ((region_module, "CapturedGraph", _DrawingCapture),)
