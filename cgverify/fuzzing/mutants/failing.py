"""Faults of what happens when a capture fails, or must not be begun (group F)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cgverify.fuzzing.mutants.base import Mutant
from cgverify.plan import Region
from cgverify.runtime import pool as pool_module
from cgverify.runtime import region as region_module
from cgverify.runtime.guards import Refusal, find_refusal
from cgverify.runtime.pool import Pool
from cgverify.runtime.region import GraphedRegion

import torch

Tensors = Sequence[torch.Tensor]

_capture = Pool.capture
_give_up = GraphedRegion._give_up


def _capture_that_waits(pool: Pool, body: Callable[..., Tensors], buffers: Tensors, needs: int = 0) -> Any:
    def waiting(*args: torch.Tensor) -> Tensors:
        results = body(*args)
        torch.cuda.synchronize()
        return results

    return _capture(pool, waiting, buffers, needs)


class WaitsInCapture(Mutant):
    """A kernel of every body waits for the device when it is captured."""

    faults = ("F01", "F03", "F04")
    in_call = ((Pool, "capture", _capture_that_waits),)


class LeftInCapture(Mutant):
    """After a capture that failed nobody takes the generator out of capture mode."""

    faults = ("F07",)
    in_call = (
        (Pool, "capture", _capture_that_waits),
        (pool_module, "release_generator", lambda device, stream: None),
    )


def _raises(region: GraphedRegion, key: Any, refusal: Refusal, reason: str) -> Refusal:
    _give_up(region, key, refusal, reason)
    raise RuntimeError(reason)


class FailureRaised(Mutant):
    """A capture that fails ends the call with an error, instead of running it un-graphed."""

    faults = ("F07",)
    in_call = ((Pool, "capture", _capture_that_waits), (GraphedRegion, "_give_up", _raises))


def _refusal_but_for_captures(region: Region, args: Tensors) -> Refusal | None:
    refusal = find_refusal(region, args)
    return None if refusal is Refusal.INSIDE_CAPTURE else refusal


class CaptureInsideCapture(Mutant):
    """A call inside a capture of the caller's own begins another."""

    faults = ("F06",)
    in_call = ((region_module, "find_refusal", _refusal_but_for_captures),)


class FailsOnEmpty(Mutant):
    """A region that launches nothing for some arguments counts as a capture that failed."""

    faults = ("F09",)
    in_call = ((region_module, "EmptyCaptureError", type("AnotherError", (Exception,), {})),)
