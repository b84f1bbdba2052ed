"""Faults of choosing what is captured: ops that wait, copy, read the host, or are not known (groups B and F)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cgverify.fuzzing.mutants.base import Mutant
from cgverify.ir import Op, TraceView
from cgverify.transform import effects, partition
from cgverify.transform.effects import Effects
from cgverify.transform.tables import CAPTURABLE, HOST_TRANSFERS

from thunder.core.prims import PrimIDs
from thunder.core.proxies import TensorProxy

_forbidden_operands = effects._forbidden_operands


def _any_device(view: TraceView, found: Sequence[Effects], index: int) -> str | None:
    return None if found[index].barrier else "cuda:0"


def _refused_but(*identifiers: object) -> dict[object, str]:
    return {k: v for k, v in effects._REFUSED_IDS.items() if k not in identifiers}


class CapturedItem(Mutant):
    """`.item()` joins a region, because only the prim's id is looked for and the torch executor's is another."""

    faults = ("F01",)
    code = "CG201"
    shows = "static"
    in_rewrite = (
        (effects, "_REFUSED_IDS", _refused_but("item", PrimIDs.ITEM)),
        (effects, "CAPTURABLE", CAPTURABLE | {"item"}),
        (effects, "_forbidden_operands", lambda *args: None),
        (partition, "_colour", _any_device),
    )


def _only_tensors(op: Op, *rest: object) -> str | None:
    tensors = [isinstance(proxy, TensorProxy) for proxy in op.proxies()]
    return None if tensors and all(tensors) else "works on something other than tensors"


class CapturedHostTensor(Mutant):
    """Ops on CPU tensors join a region, where they run once, at capture."""

    faults = ("B02", "B03")
    code = "CG202"
    shows = "static"
    in_rewrite = ((effects, "_forbidden_operands", _only_tensors), (partition, "_colour", _any_device))


def _host_scalars_too(op: Op, *rest: Any) -> str | None:
    tensors = [proxy for proxy in op.proxies() if isinstance(proxy, TensorProxy)]
    on_device = [proxy for proxy in tensors if "cuda" in proxy.device.device_str()]
    on_host = [proxy for proxy in tensors if "cuda" not in proxy.device.device_str()]
    if on_device and on_host and all(proxy.ndim == 0 for proxy in on_host):
        return None
    return _forbidden_operands(op, *rest)


class CapturedHostScalar(Mutant):
    """A CPU tensor without dimensions may stand among CUDA tensors in a region: its value is frozen at capture."""

    faults = ("B03",)
    code = "CG202"
    shows = "static"
    in_rewrite = ((effects, "_forbidden_operands", _host_scalars_too), (partition, "_colour", _any_device))


class CapturedTransfer(Mutant):
    """Copies between host and device join a region; at replay they read and write the memory of the capture."""

    faults = ("B07",)
    code = "CG202"
    shows = "static"
    in_rewrite = (
        (effects, "_REFUSED_IDS", _refused_but(*HOST_TRANSFERS)),
        (effects, "CAPTURABLE", CAPTURABLE | HOST_TRANSFERS),
        (effects, "_forbidden_operands", _only_tensors),
        (partition, "_colour", _any_device),
    )


class CapturedNumber(Mutant):
    """An op on a number that the host has read joins a region: the number is baked in at capture."""

    faults = ("B01",)
    code = "CG206"
    shows = "static"
    in_rewrite = ((effects, "_forbidden_operands", lambda *args: None), (partition, "_colour", _any_device))


class CapturedFill(Mutant):
    """Setting an element to a Python number joins a region, though it may copy from host memory."""

    faults = ("F02",)
    in_rewrite = ((effects, "_forbidden_fill", lambda op: None),)
