"""Frozen facts that the transform claims about one trace: its regions, their inputs and outputs, the ops left out.

The runtime executes a plan; the verifier recomputes it. Nothing here depends on torch or Thunder, so a plan can be
compared, printed and stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class InputRole(Enum):
    """How a region receives an input."""

    STATIC = "static"  # read in place: the address is promised stable and guarded before each replay
    COPIED = "copied"  # copied into a static buffer before each replay


class OutputRole(Enum):
    """What a region's output may be; which of the possible it is shows at capture."""

    FRESH = "fresh"  # memory of the graph: the caller gets a copy in memory of its own
    LENT = "lent"  # the caller never gets it, it is saved or used later: stays in graph memory while somebody holds it
    MAY_ALIAS_INPUT = (
        "may-alias-input"  # perhaps an input or a view of one: the caller then gets a view of its own tensor
    )


@dataclass(frozen=True, slots=True)
class RegionInput:
    """One input of a region.

    Attributes:
        name: the value's name in the trace, which is also the parameter's name in the region's body.
        role: static or copied.
        written: whether the region may write the input's memory, itself or through a view.
    """

    name: str
    role: InputRole
    written: bool


@dataclass(frozen=True, slots=True)
class RegionOutput:
    """One output of a region.

    Attributes:
        name: the value's name in the trace.
        role: fresh, or possibly an alias of an input.
    """

    name: str
    role: OutputRole


@dataclass(frozen=True, slots=True)
class Region:
    """A run of ops that becomes one CUDA graph.

    Attributes:
        name: the symbol's name in the emitted trace, `CUDAGraphN`.
        ops: indices of the ops in the trace before the transform, in emitted order.
        inputs: in the order of the region's parameters.
        outputs: in the order of the region's results.
        device: the one device of all its tensors, such as `cuda:0`.
        random: whether it draws random numbers.
        needs: bytes that its large values take at once, by the trace's shapes; 0 where these are not known. A hint.
    """

    name: str
    ops: tuple[int, ...]
    inputs: tuple[RegionInput, ...]
    outputs: tuple[RegionOutput, ...]
    device: str
    random: bool
    needs: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An op that runs un-graphed.

    Attributes:
        op: its index in the trace before the transform.
        symbol: the symbol's name.
        reason: why it is not in a region, in one sentence without a full stop.
        source: `file:line` of the user's code, where known.
    """

    op: int
    symbol: str
    reason: str
    source: str | None


@dataclass(frozen=True, slots=True)
class DeviceScalar:
    """An argument that is read on the device: the 0-d tensor instead of the Python number that `item` made of it.

    Attributes:
        op: the reader's index in the trace before the transform.
        symbol: the reader's symbol's name.
        number: name of the number that it reads there.
        tensor: name of the tensor that it reads instead.
        source: `file:line` of the user's code, where known.
    """

    op: int
    symbol: str
    number: str
    tensor: str
    source: str | None


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """The full claim for one trace.

    Attributes:
        trace: name of the generated function (`computation`, `backward_fn`).
        regions: in execution order.
        left_out: in the order of the original trace.
        scalars: arguments that are read on the device, in the order of the original trace.
    """

    trace: str
    regions: tuple[Region, ...]
    left_out: tuple[LeftOut, ...]
    scalars: tuple[DeviceScalar, ...] = ()
