"""What each op does besides computing its result, and whether it may be captured in a CUDA graph.

Facts per op: which arguments it writes, whether it draws random numbers, whether it launches device work, whether its
effects are unknown, and, if it may not join a region, the reason in words. The rule is *default deny*: an op is
capturable only if its executor and id are in the tables below and nothing about its arguments forbids it. Tags on
executor symbols cannot be trusted (most are missing), so facts come from ids, from proxies, and from a search through
subsymbols of any depth.

Sources: torch operators and their behaviour in stream capture as recorded on an H200 (torch 2.11); the ids of Thunder
0.2.6's torch executor.

What it does not know: whether values share memory (`aliases.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from cgverify.ir import Op, OpKind, TraceView
from cgverify.transform.tables import (
    CAPTURABLE,
    COLLECTIVES,
    DYNAMIC_SHAPES,
    HOST_READS,
    HOST_TRANSFERS,
    INDEXING,
    MAY_ALIAS,
    PRIM_MAY_ALIAS,
    PRIM_RANDOM,
    PRIM_REFUSED,
    QUIET,
    RANDOM,
    SYNCS,
    VIEWS,
)

from thunder.core import devices
from thunder.core.prims import PrimIDs
from thunder.core.proxies import NumberProxy, Proxy, TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.executors import torchex

Capturable = Collection[str] | Callable[[BoundSymbol], bool]

_CAPTURING_EXECUTORS = {"torch", "sdpa"}
_FUSION_EXECUTORS = {"torchcompile", "torchcompile_cat", "torchcompile_xentropy", "nvfuser"}


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of one op.

    Attributes:
        writes: names of the arguments whose memory it may write.
        random: whether it draws from the default generator of its device.
        works: whether it launches device work; a view or an identity does not.
        opaque: its effects are unknown: it is kept in order with every other effect.
        device: for an op that computes with sizes alone, the device of the region that it may join.
        barrier: why it may not be captured; None for a capturable op.
    """

    writes: tuple[str, ...] = ()
    random: bool = False
    works: bool = True
    opaque: bool = False
    barrier: str | None = None
    device: str | None = None


def compute_effects(
    view: TraceView, capturable: Capturable = (), sizes: Mapping[str, str] = MappingProxyType({})
) -> tuple[Effects, ...]:
    """One `Effects` for each op of `view`, in order.

    Args:
        view: the trace.
        capturable: symbol names or ids that the caller vouches for, or a predicate on bound symbols. It overrides the
            verdict "unknown op" only; it takes on trust that the op writes none of its arguments unseen.
        sizes: numbers that a region may compute by itself -> the device of the tensors whose sizes they come from.
    """
    return tuple(_op_effects(op, capturable, sizes) for op in view.ops)


def _op_effects(op: Op, capturable: Capturable, sizes: Mapping[str, str]) -> Effects:
    if op.kind is not OpKind.COMPUTE:
        return Effects(works=False, barrier="structural")
    if op.outputs and op.outputs[0] in sizes:
        return Effects(works=False, device=sizes[op.outputs[0]])
    if op.id == "clear_mutable_collection":
        return Effects(writes=op.reads, works=False, barrier="empties a Python list")
    nested = tuple(_descend(op.bsym))
    writes = _writes(op, nested)
    random = any(_is_random(bsym) for bsym in nested)
    forbidden = _forbidden(op, nested, sizes)
    known = _is_known(op, nested)
    vouched = not known and _is_vouched(op, capturable)
    if not known and not vouched:
        reason = forbidden or f"unknown op `{op.name}`: not in the table of capturable ops"
        quiet = op.id in QUIET or (op.executor == "python" and not op.is_fusion)
        return Effects(writes if quiet else op.reads, random or not quiet, works=True, opaque=not quiet, barrier=reason)
    return Effects(writes, random or vouched, works=op.is_fusion or op.id not in VIEWS, barrier=forbidden)


def _is_known(op: Op, nested: tuple[BoundSymbol, ...]) -> bool:
    if op.is_fusion:
        leaves = [bsym for bsym in nested[1:] if not bsym.subsymbols]
        return op.executor in _FUSION_EXECUTORS and bool(leaves) and all(map(_is_known_leaf, leaves))
    return op.executor in _CAPTURING_EXECUTORS and op.id in CAPTURABLE


def _is_known_leaf(bsym: BoundSymbol) -> bool:
    """A leaf of a fusion is a prim, or an op of the torch executor's vocabulary.

    That is under its own or its `torch.` name, or one like `nll_loss_backward` that the executor runs under another.
    """
    if isinstance(bsym.sym.id, PrimIDs):
        return bsym.sym.id not in PRIM_REFUSED
    name = str(bsym.sym.id)
    executed = torchex.ex.implmap.get(name)
    known = {name, name.rpartition(".")[2], executed.symbol.id if executed and executed.symbol else name}
    return not known.isdisjoint(CAPTURABLE)


def _is_vouched(op: Op, capturable: Capturable) -> bool:
    if callable(capturable):
        return bool(capturable(op.bsym))
    return op.name in capturable or op.id in capturable


def _descend(bsym: BoundSymbol) -> Iterator[BoundSymbol]:
    yield bsym
    for sub in bsym.subsymbols:
        yield from _descend(sub)


def _writes(op: Op, nested: tuple[BoundSymbol, ...]) -> tuple[str, ...]:
    """Arguments of the op that it writes: in Thunder every write is a `copy_` at some depth, its destination second.

    Inside a fusion the destination is an alias of an argument, so names are traced back through aliases and views.
    """
    origins: dict[str, tuple[str, ...]] = {name: (name,) for name in op.reads}
    writes: dict[str, None] = {}
    for bsym in nested:
        if bsym.sym.id in (PrimIDs.COPY_, "copy_") and isinstance(bsym.args[1], Proxy):
            writes.update(dict.fromkeys(origins.get(bsym.args[1].name, ())))
        if not bsym.subsymbols and _may_alias(bsym):
            sources = dict.fromkeys(o for proxy in bsym.flat_proxy_args for o in origins.get(proxy.name, ()))
            for proxy in bsym.flat_proxy_outs:
                origins.setdefault(proxy.name, tuple(sources))
    return tuple(writes)


def _may_alias(bsym: BoundSymbol) -> bool:
    if isinstance(bsym.sym.id, PrimIDs):
        return bsym.sym.id in PRIM_MAY_ALIAS
    return str(bsym.sym.id).rpartition(".")[2] in MAY_ALIAS


def _is_random(bsym: BoundSymbol) -> bool:
    identifier = bsym.sym.id
    if identifier == "scaled_dot_product_attention" or "efficient_attention" in str(identifier):
        share = _argument(bsym, 4, "dropout_p", 0.0)
        return isinstance(share, Proxy) or bool(share != 0.0)
    return identifier in RANDOM or identifier in PRIM_RANDOM


def _forbidden(op: Op, nested: tuple[BoundSymbol, ...], sizes: Collection[str]) -> str | None:
    """Why the op may not be captured although its name alone would allow it; None if nothing speaks against it."""
    for bsym in nested:
        reason = _REFUSED_IDS.get(bsym.sym.id)
        if reason is not None:
            return reason
    return _forbidden_operands(op, nested, sizes) or _forbidden_arguments(op)


def _refused_ids() -> dict[Any, str]:
    reasons = (
        (SYNCS, "waits for the device to hand a value to the host"),
        (DYNAMIC_SHAPES, "has a result whose shape depends on data"),
        (HOST_TRANSFERS, "copies between host and device"),
        (HOST_READS, "reads metadata on the host"),
        (COLLECTIVES, "communicates between devices"),
    )
    table: dict[Any, str] = {identifier: reason for ids, reason in reasons for identifier in ids}
    table[PrimIDs.ITEM] = table["item"]
    return table


_REFUSED_IDS: Mapping[Any, str] = _refused_ids()


def _forbidden_operands(op: Op, nested: tuple[BoundSymbol, ...], sizes: Collection[str]) -> str | None:
    inside: Collection[str] = () if op.is_fusion or op.id in _JUDGED_BY_NUMBERS else sizes
    for proxy in op.proxies():
        if isinstance(proxy, NumberProxy) and proxy.name not in inside:
            return f"works on `{proxy.name}`, a Python number known only at run time"
        if not isinstance(proxy, (NumberProxy, TensorProxy)):
            return f"works on `{proxy.name}`, a Python object"
    seen: dict[str, str] = {}
    for bsym in nested if op.is_fusion else nested[:1]:
        for proxy in (*bsym.flat_proxy_args, *bsym.flat_proxy_outs):
            if proxy.name in inside:
                continue
            if not isinstance(proxy, TensorProxy):
                return f"works on `{proxy.name}`, a Python number known only at run time"
            if proxy.device.devicetype is not devices.DeviceType.CUDA:
                return f"works on `{proxy.name}`, a tensor on {proxy.device.device_str()}"
            seen.setdefault(proxy.device.device_str(), proxy.name)
    if len(seen) > 1:
        return "works on two devices: " + " and ".join(f"`{name}` is on {device}" for device, name in seen.items())
    return None if seen else "has no tensor on a CUDA device"


_JUDGED_BY_NUMBERS = {"repeat_interleave", "one_hot", "embedding", "copy_with_setitem_impl", "index_put"}
"""Ops that may be captured with some numbers and not with others: for these a number has to be a literal."""


def _forbidden_arguments(op: Op) -> str | None:
    bsym = op.bsym
    if op.id in INDEXING:
        position = INDEXING[op.id]
        key = bsym.args[position] if len(bsym.args) > position else None
        return _forbidden_index(key) or _forbidden_fill(op)
    if op.id == "index_put" and not _are_device_indices(_argument(bsym, 1, "indices", ())):
        return "indexes with values from the host or with a mask"
    if op.id == "repeat_interleave" and not isinstance(_argument(bsym, 1, "repeats", None), int):
        return "has a result whose shape depends on data"
    if op.id == "one_hot" and _argument(bsym, 1, "num_classes", -1) in (-1, None):
        return "waits for the device to count the classes"
    if op.id == "embedding" and _argument(bsym, 3, "max_norm", None) is not None:
        return "renormalises its weights by a host loop"
    return None


def _forbidden_fill(op: Op) -> str | None:
    """Setting one element to a Python number copies it from pageable host memory; on larger slices it is a fill."""
    if op.id == "copy_with_setitem_impl" and not isinstance(op.bsym.args[2], TensorProxy):
        return "may copy a Python number from host memory"
    return None


def _forbidden_index(key: Any) -> str | None:
    parts = key if isinstance(key, tuple) else (key,)
    for part in parts:
        if part is None or part is Ellipsis or (isinstance(part, (int, slice)) and not isinstance(part, bool)):
            continue
        if _are_device_indices((part,)):
            continue
        return "indexes with values from the host or with a mask"
    return None


def _are_device_indices(parts: Any) -> bool:
    return isinstance(parts, (tuple, list)) and all(
        isinstance(part, TensorProxy)
        and part.device.devicetype is devices.DeviceType.CUDA
        and part.dtype.is_weak is False
        and "bool" not in str(part.dtype)
        for part in parts
    )


def _argument(bsym: BoundSymbol, position: int, name: str, default: Any) -> Any:
    if name in bsym.kwargs:
        return bsym.kwargs[name]
    return bsym.args[position] if len(bsym.args) > position else default
