"""Who is timed: each peer makes a workload ready to be called, whole and by its computation alone.

A whole call is what a user writes. The computation is what remains of it for a Thunder function without Thunder's
prologue, which checks the arguments, and without autograd's glue: the executed forward, then the executed backward.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from cgverify.api import CUDAGraphTransform
from cgverify.bench.bare import BareGraph
from cgverify.bench.cases import Inputs, Workload
from cgverify.plan import InputRole
from cgverify.runtime.region import GraphedRegion

import thunder
import torch
from thunder.transforms.cudagraph import CUDAGraphTransform as ThunderGraphs

EAGER, THUNDER, THUNDER_GRAPHS, CGVERIFY, COPYING, FLOOR, COMPILE = (
    "eager",
    "thunder",
    "thunder-graphs",
    "cgverify",
    "cgverify-copying",
    "floor",
    "torch.compile",
)
PEERS = (EAGER, THUNDER, CGVERIFY, COPYING, THUNDER_GRAPHS, FLOOR, COMPILE)
"""In the order in which they are made ready."""

Call = Callable[[], object]


class Peer(Protocol):
    """A peer made ready for one workload."""

    def results(self, inputs: Inputs) -> list[torch.Tensor]:
        """One call's results, and gradients in the order of the parameters."""

    def whole(self, inputs: Inputs) -> Call | None:
        """What a user calls; None if there is no such thing."""

    def computation(self, inputs: Inputs) -> Call | None:
        """The computation alone; None if the two are not apart. The peer was called before."""

    def prologue(self, inputs: Inputs) -> Call | None:
        """What Thunder does of a whole call before the computation; None for others. The peer was called before."""


class DirectPeer:
    """Eager PyTorch, or torch.compile: a function in place of the workload's."""

    def __init__(self, workload: Workload, function: Callable[..., Any]) -> None:
        self._step = workload.step(function)

    def results(self, inputs: Inputs) -> list[torch.Tensor]:
        """See `Peer`."""
        return as_list(self._step(*inputs))

    def whole(self, inputs: Inputs) -> Call:
        """See `Peer`."""
        return partial(self._step, *inputs)

    def computation(self, inputs: Inputs) -> None:
        """See `Peer`."""

    def prologue(self, inputs: Inputs) -> None:
        """See `Peer`."""


class ThunderPeer:
    """A function compiled by Thunder with one executor and perhaps a transform."""

    def __init__(self, workload: Workload, executor: str, *transforms: Any) -> None:
        self.jitted = thunder.jit(workload.function, transforms=list(transforms), executors=[executor])
        self._step = workload.step(self.jitted)

    def results(self, inputs: Inputs) -> list[torch.Tensor]:
        """See `Peer`."""
        return as_list(self._step(*inputs))

    def whole(self, inputs: Inputs) -> Call | None:
        """See `Peer`."""
        return partial(self._step, *inputs)

    def computation(self, inputs: Inputs) -> Call:
        """See `Peer`."""
        executed = find_executed(self.jitted)
        return partial(executed.run, *flatten_inputs(self.jitted, inputs))

    def prologue(self, inputs: Inputs) -> Call:
        """See `Peer`."""
        return partial(flatten_inputs, self.jitted, inputs)

    def region_calls(self, inputs: Inputs) -> list[RegionCall]:
        """The calls of cgverify's regions in one computation, in order."""
        executed = find_executed(self.jitted)
        return record_region_calls(executed, partial(executed.run, *flatten_inputs(self.jitted, inputs)))


class CopyingPeer(ThunderPeer):
    """cgverify that always copies its inputs: the computation of a call whose inputs lie somewhere else each time."""

    def __init__(self, workload: Workload, executor: str) -> None:
        super().__init__(workload, executor, CUDAGraphTransform(in_place_after=None))

    def whole(self, inputs: Inputs) -> None:
        """See `Peer`: the computation tells all."""


class FloorPeer:
    """A raw graph of all that Thunder's un-graphed computation does: forward, and backward if there is one."""

    def __init__(self, workload: Workload, ungraphed: ThunderPeer) -> None:
        self._workload = workload
        self._ungraphed = ungraphed
        self._graph: BareGraph | None = None

    def results(self, inputs: Inputs) -> list[torch.Tensor]:
        """See `Peer`."""
        graph = self._capture(inputs)
        flat = flatten_inputs(self._ungraphed.jitted, inputs)
        produced = graph(*flat)
        wanted = self._workload.parameters
        if not wanted:
            return produced
        gradients = produced[len(produced) - len(wanted) :]
        differentiated = [id(tensor) for tensor in flat if tensor.requires_grad]
        return [*produced[: -len(wanted)], *(gradients[differentiated.index(id(p))] for p in wanted)]

    def whole(self, inputs: Inputs) -> None:
        """See `Peer`: the floor has no prologue."""

    def computation(self, inputs: Inputs) -> Call:
        """See `Peer`."""
        return partial(self._capture(inputs), *flatten_inputs(self._ungraphed.jitted, inputs))

    def prologue(self, inputs: Inputs) -> None:
        """See `Peer`: the floor has no prologue."""

    def _capture(self, inputs: Inputs) -> BareGraph:
        if self._graph is None:
            self._ungraphed.results(inputs)
            executed = find_executed(self._ungraphed.jitted)
            flat = flatten_inputs(self._ungraphed.jitted, inputs)
            in_place = {k for k, tensor in enumerate(flat) if isinstance(tensor, torch.nn.Parameter)}
            self._graph = BareGraph(executed.run, flat, in_place)
        return self._graph


def make_peer(name: str, workload: Workload, executor: str, ungraphed: Peer | None = None) -> Peer:
    """Makes a peer ready; Thunder's compile in the first call.

    Args:
        name: one of `PEERS`.
        workload: what it is to call.
        executor: of Thunder; unused by eager and torch.compile.
        ungraphed: for the floor, the peer `thunder` of this workload and executor, if it is ready: it spares compiling.
    """
    match name:
        case "eager":
            return DirectPeer(workload, workload.function)
        case "torch.compile":
            return DirectPeer(workload, torch.compile(workload.function, mode="reduce-overhead", fullgraph=True))
        case "thunder":
            return ThunderPeer(workload, executor)
        case "cgverify":
            return ThunderPeer(workload, executor, CUDAGraphTransform())
        case "cgverify-copying":
            return CopyingPeer(workload, executor)
        case "thunder-graphs":
            return ThunderPeer(workload, executor, ThunderGraphs())
        case "floor":
            ready = ungraphed if isinstance(ungraphed, ThunderPeer) else ThunderPeer(workload, executor)
            return FloorPeer(workload, ready)
    raise ValueError(f"unknown peer {name!r}: choose one of {', '.join(PEERS)}")


@dataclass(frozen=True, slots=True)
class Executed:
    """The functions that Thunder executes after its prologue.

    Attributes:
        forward: takes the flat tensors of a call.
        backward: takes saved values and cotangents, and gives a gradient or None for each flat tensor; None if nothing
            is differentiated.
        cotangent: of the loss.
    """

    forward: Callable[..., Any]
    backward: Callable[..., Any] | None
    cotangent: torch.Tensor

    def run(self, *flat: torch.Tensor) -> list[torch.Tensor]:
        """The results; with a backward the loss, then the gradients in the order of `flat`."""
        if self.backward is None:
            return list(self.forward(*flat))
        result, (saved, others) = self.forward(*flat)
        gradients = self.backward([list(saved), list(others)], [self.cotangent])  # which empties the lists
        return [*result["flat_output"], *(gradient for gradient in gradients if gradient is not None)]


def find_executed(jitted: Any) -> Executed:
    """The functions of the entry that Thunder made last; `jitted` was called before."""
    entry = thunder.compile_stats(jitted).interpreter_cache[-1]
    return Executed(entry.computation_fn, entry.backward_fn, torch.ones((), device="cuda"))


def flatten_inputs(jitted: Any, inputs: Inputs) -> list[torch.Tensor]:
    """What Thunder's prologue passes on to the computation: the tensors of a call, parameters included."""
    _, flat, _ = thunder.compile_data(jitted).get_computation_and_inputs(*inputs)
    return list(flat)


@dataclass(frozen=True, slots=True)
class RegionCall:
    """A region of cgverify's and the arguments of one call of it."""

    region: GraphedRegion
    args: tuple[torch.Tensor, ...]

    def bare(self) -> BareGraph:
        """A raw graph of the same body with the same inputs copied."""
        in_place = {k for k, entry in enumerate(self.region.plan.inputs) if entry.role is InputRole.STATIC}
        return BareGraph(self.region.body.python_callable(), self.args, in_place)


def record_region_calls(executed: Executed, run: Call) -> list[RegionCall]:
    """Runs a computation once and notes which of cgverify's regions it calls, and with what."""
    calls: list[RegionCall] = []

    def recorder(region: GraphedRegion) -> Callable[..., Any]:
        def record(*args: torch.Tensor) -> Any:
            # who keeps what a graph lends keeps that graph still, so the notes have copies of it
            lent = region.choose_lent(args)
            calls.append(RegionCall(region, tuple(arg.clone() if k in lent else arg for k, arg in enumerate(args))))
            return region(*args)

        return record

    functions = [function for function in (executed.forward, executed.backward) if function is not None]
    namespaces = [inspect.unwrap(function).__globals__ for function in functions]
    found = [
        (namespace, name, value)
        for namespace in namespaces
        for name, value in namespace.items()
        if isinstance(value, GraphedRegion)
    ]
    for namespace, name, region in found:
        namespace[name] = recorder(region)
    try:
        run()
    finally:
        for namespace, name, region in found:
            namespace[name] = region
    return calls


def as_list(results: torch.Tensor | Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """One tensor or several, as a list."""
    return [results] if isinstance(results, torch.Tensor) else list(results)
