"""What a planted fault is: cgverify's own transform with one decision turned wrong, and where that shows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal
from unittest import mock

from cgverify.api import CUDAGraphTransform
from cgverify.fuzzing.targets import IN_PLACE_AFTER
from cgverify.plan import Region
from cgverify.runtime.region import GraphedRegion

import torch
from thunder.core.trace import TraceCtx

Shows = Literal["static", "emulated", "gpu"]
Plants = Sequence[tuple[Any, str, Any]]
"""What a fault replaces: (module or class, name, the wrong value)."""

MUTANTS: list[type[Mutant]] = []
"""Every mutant, in the order in which the modules are read."""


class Mutant(CUDAGraphTransform):
    """cgverify's transform with one fault. A class without `faults` is a base of others, and no mutant.

    Attributes:
        faults: the kinds of fault that it stands for, by their ids in docs/faults.md.
        code: the verifier's code for the fault; empty where the trace does not show it.
        shows: the cheapest place where it shows.
        path: `jit` where only programs with gradients through `thunder.jit` show it.
        max_graphs: of the transform.
        in_rewrite: what to replace while a trace is rewritten.
        in_call: what to replace while a region is called.
    """

    faults: ClassVar[tuple[str, ...]] = ()
    code: ClassVar[str] = ""
    shows: ClassVar[Shows] = "emulated"
    path: ClassVar[Literal["direct", "jit"]] = "direct"
    max_graphs: ClassVar[int] = 64
    in_rewrite: ClassVar[Plants] = ()
    in_call: ClassVar[Plants] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.faults:
            MUTANTS.append(cls)

    def __init__(self, *, verify: bool = False) -> None:
        super().__init__(verify=verify, max_graphs=self.max_graphs, in_place_after=IN_PLACE_AFTER)

    def rewrite(self, trace: TraceCtx, *, forward: TraceCtx | None = None) -> TraceCtx:
        """Rewrites `trace` with the fault in place."""
        with planted(self.in_rewrite):
            return super().rewrite(trace, forward=forward)

    def _make_callable(self, region: Region, body: TraceCtx) -> GraphedRegion:
        return with_fault(super()._make_callable(region, body), self.in_call)


@contextlib.contextmanager
def planted(plants: Plants) -> Iterator[None]:
    """Put every fault in its place, and take it out again."""
    with contextlib.ExitStack() as stack:
        for target, name, value in plants:
            stack.enter_context(mock.patch.object(target, name, value))
        yield


def with_fault(region: GraphedRegion, plants: Plants) -> GraphedRegion:
    """Give a region faults that are in place during each of its calls."""
    if plants:
        region.__class__ = type("FaultyRegion", (GraphedRegion,), {"__call__": _call_with(plants)})
    return region


def _call_with(plants: Plants) -> Callable[..., list[torch.Tensor]]:
    def call(self: GraphedRegion, *args: torch.Tensor) -> list[torch.Tensor]:
        with planted(plants):
            return GraphedRegion.__call__(self, *args)

    return call
