"""Which numbers a region may compute by itself: sizes of device tensors, and what Python makes of them.

Under Thunder's `cache="symbolic values"` a trace asks for sizes when it runs: `(i0, i1) = shape(x)`. A graph serves
arguments of one shape, and no capturable op has a shape that depends on data; so inside a region such numbers are the
same at every replay, and may be computed at the capture. None may cross a region's border: there it would be an
argument that the graph cannot take. A number that would cross stays outside, with all that needs it.

Facts: number -> the device of the tensors whose sizes it comes from. Direction: one forward walk. Transfer rule:
`shape` of a CUDA tensor that other ops read too gives sizes; arithmetic of the Python executor on sizes of one device
and literals gives more. What remains inside is found by trial: schedule, drop what crosses a border with all that
needs it, and schedule again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cgverify.ir import Op, OpKind, TraceView
from cgverify.transform.partition import Partition
from cgverify.transform.tables import NUMBER_ARITHMETIC

from thunder.core import devices
from thunder.core.proxies import NumberProxy, TensorProxy
from thunder.executors import torchex


def compute_sizes(view: TraceView) -> dict[str, str]:
    """Each number that is a size of a CUDA tensor, or computed from such sizes alone -> the tensor's device."""
    sizes: dict[str, str] = {}
    for op in view.ops:
        if op.kind is OpKind.COMPUTE and all(isinstance(view.values[name], NumberProxy) for name in op.outputs):
            device = _asked_device(view, op) or _computed_device(op, sizes)
            if device is not None:
                sizes.update(dict.fromkeys(op.outputs, device))
    return sizes


def _asked_device(view: TraceView, op: Op) -> str | None:
    """The device of the tensor whose sizes the op asks for; None if it does something else."""
    if op.id != "shape" or torchex.ex.opmap.get("shape") is not op.bsym.sym or len(op.reads) != 1:
        return None
    tensor = view.values[op.reads[0]]
    if not isinstance(tensor, TensorProxy) or tensor.device.devicetype is not devices.DeviceType.CUDA:
        return None
    # a region would copy in a tensor that is there for its sizes alone
    is_read = any(
        view.ops[use].kind is OpKind.COMPUTE and view.ops[use].id != "shape" for use in view.uses[tensor.name]
    )
    return str(tensor.device.device_str()) if is_read else None


def _computed_device(op: Op, sizes: Mapping[str, str]) -> str | None:
    """The one device of the sizes that the op computes with; None if it computes with anything else."""
    if op.executor != "python" or op.id not in NUMBER_ARITHMETIC:
        return None
    found = {sizes.get(name) for name in op.reads}
    return found.pop() if len(found) == 1 else None


def compute_inner_sizes(view: TraceView, partition: Partition, sizes: Mapping[str, str]) -> dict[str, str]:
    """Those of `sizes` that under this partition are needed only in the region that computes them, and depend on such.

    All of `sizes` if none crosses a border.
    """
    gone = _crossing(view, partition, sizes)
    for op in view.ops if gone else ():
        if not gone.isdisjoint(op.outputs) or not gone.isdisjoint(op.reads):
            gone.update(name for name in op.outputs if name in sizes)
    return {name: device for name, device in sizes.items() if name not in gone}


def _crossing(view: TraceView, partition: Partition, sizes: Collection[str]) -> set[str]:
    """Sizes that are needed elsewhere than in the region that computes them."""
    region = {index: k for k, phase in enumerate(partition.phases) if phase.device is not None for index in phase.ops}
    returned = set(view.returned)
    crossing: set[str] = set()
    for name in sizes:
        home = region.get(view.definitions[name])
        uses = [use for use in view.uses.get(name, ()) if view.ops[use].kind is OpKind.COMPUTE]
        if name in returned or any(region.get(use) != home for use in uses):
            crossing.add(name)
    return crossing
