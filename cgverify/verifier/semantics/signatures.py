"""What a symbol does whatever its arguments, derived from torch's operator schemas and tags, and from `tables.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import Any

from cgverify.verifier.semantics import tables

import torch
from thunder.core.prims import PrimIDs
from thunder.core.symbol import Symbol

ANY = -1  # an argument position: every argument


@dataclass(frozen=True, slots=True)
class Signature:
    """What a symbol does whatever its arguments; positions count the arguments of the Python form.

    Attributes:
        known: whether anything vouches for the symbol; if not, its decomposition must.
        views: argument positions whose memory results may share; -1 stands for all.
        writes: argument positions written.
        identity: results are the arguments themselves.
        fresh: results are in memory of their own where torch's op runs, whatever views the decomposition is made of.
        lone: results share memory only with an argument that is the only tensor.
        conversion: results share memory only if dtype and device stay.
        random: draws random numbers, but for the switches in `off`.
        off: (position, name, value): draws nothing when that argument has that value.
        dynamic: the result's shape depends on values.
        sync: why the host waits, or empty.
        transfer: why data crosses between host and device, or empty.
        uncertain: nobody promises that it can be captured.
        opaque: touches Python state: ordered with everything.
        indexing: may wait or transfer, depending on the index it is given.
    """

    known: bool = True
    views: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    identity: bool = False
    fresh: bool = False
    lone: bool = False
    conversion: bool = False
    random: bool = False
    off: tuple[tuple[int, str, object], ...] = ()
    dynamic: bool = False
    sync: str = ""
    transfer: str = ""
    uncertain: bool = False
    opaque: bool = False
    indexing: bool = False


def base_name(symbol: Symbol) -> str:
    """The op's plain name: `torch_prims_reshape_impl`, `ltorch.reshape` and `PrimIDs.RESHAPE` are all `reshape`."""
    identifier = symbol.id
    if isinstance(identifier, Enum):
        return identifier.name.lower()
    name = str(identifier if isinstance(identifier, str) else symbol.name).rsplit(".", 1)[-1]
    for prefix in ("torch_prims_", "torch_", "sdpaex_", "sdpafx_"):
        name = name.removeprefix(prefix)
    for suffix in ("_prim_impl", "_impl"):
        name = name.removesuffix(suffix)
    return name.lstrip("_") if not name.startswith("__") else name


# id of a symbol -> the symbol, kept so that its id stays its own, and its signature. Symbols of one name and different
# executors are equal to Thunder, so they cannot be keys themselves.
_KNOWN: dict[int, tuple[Symbol, Signature]] = {}
_KEPT = 4096


def signature(symbol: Symbol) -> Signature:
    """What the symbol does whatever its arguments."""
    found = _KNOWN.get(id(symbol))
    if found is not None:
        return found[1]
    derived = _derive(symbol)
    if base_name(symbol) in tables.INDEXING:
        derived = replace(derived, indexing=True)
    if not symbol.is_fusion:  # a new symbol each time
        if len(_KNOWN) >= _KEPT:
            _KNOWN.clear()
        _KNOWN[id(symbol)] = (symbol, derived)
    return derived


def _derive(symbol: Symbol) -> Signature:
    identifier = symbol.id
    if isinstance(identifier, Enum):
        is_prim = isinstance(identifier, PrimIDs)
        return _prim_signature(identifier.name) if is_prim else Signature(known=False)
    executor = (
        None if symbol.executor is None else str(getattr(symbol.executor, "name", type(symbol.executor).__name__))
    )
    if symbol.is_fusion:
        return Signature(known=False)
    if executor == "python":
        return _python_signature(base_name(symbol))
    if executor in ("torch", "sdpa"):
        name = base_name(symbol)
        reordered = tables.REORDERED_WRITES.get(name)
        derived = _torch_signature(name)
        return derived if reordered is None else replace(derived, writes=reordered)
    if executor is None and _is_torchs_name(identifier):
        return _torch_signature(base_name(symbol))
    return Signature(known=False)


def _is_torchs_name(identifier: object) -> bool:
    """Whether a symbol that no executor claimed stands for an op of torch: `torch.add`, `Tensor.half`."""
    if not isinstance(identifier, str):
        return False
    return identifier.startswith(("torch.", "Tensor.")) or identifier in tables.UNPREFIXED_TORCH_IDS


@cache
def _prim_signature(name: str) -> Signature:
    if name in ("UPDATE_ALIASES", "SHALLOW_COPY"):
        return Signature(identity=True)
    if name.startswith(tables.OPAQUE_PRIM_PREFIXES) and name != "PACK_LIST":
        random = name == "GET_AND_UPDATE_RNG_STATE"
        return Signature(opaque=True, random=random, sync="it reads the generator on the host" if random else "")
    return Signature(
        views=(0,) if name in tables.VIEW_PRIMS else (),
        writes=(1,) if name == "COPY_" else (),
        conversion=name in ("CONVERT_ELEMENT_TYPE", "DEVICE_PUT"),
        random=name in tables.RANDOM_PRIMS,
        sync="it hands a value to the host" if name == "ITEM" else "",
        transfer="it copies host data to the device" if name.lower() in tables.HOST_TRANSFERS else "",
    )


@cache
def _python_signature(name: str) -> Signature:
    if name in tables.CLEARS_COLLECTION:
        return Signature(writes=(0,))
    if name in tables.PYTHON_PURE:
        return Signature()
    return Signature(opaque=True)


@cache
def _torch_signature(name: str) -> Signature:
    if name.endswith("_vjp"):
        forward = _torch_signature(name.removesuffix("_vjp"))
        return Signature(
            known=forward.known, random=forward.random, dynamic=forward.dynamic, sync=forward.sync, uncertain=True
        )
    if name in tables.IDENTITIES:
        return Signature(identity=True)
    overloads = _overloads(name)
    tags = {tag for overload in overloads for tag in overload.tags}
    conversion = name in tables.CONVERSIONS
    views = _annotated(overloads, lambda alias: not alias.is_write)
    if name in tables.MAY_RETURN_ANY_ARGUMENT or name in tables.MAY_RETURN_ONLY_ARGUMENT:
        views = (ANY,)
    elif not views and (name in tables.MAY_RETURN_ARGUMENT or conversion):
        views = (0,)
    writes = tables.UNDECLARED_WRITES.get(name) or _annotated(overloads, lambda alias: alias.is_write)
    sync = name in tables.HOST_SYNCS or torch.Tag.data_dependent_output in tags
    tabled = name in tables.KNOWN_PURE or name in tables.UNTAGGED_RANDOM or name in tables.UNDECLARED_WRITES
    return Signature(
        known=bool(overloads or views or tabled or sync or name in tables.HOST_TRANSFERS | tables.CAPTURE_UNCERTAIN),
        views=views,
        writes=writes,
        fresh=name in tables.NEVER_VIEWS or _promises_fresh(overloads, views, writes),
        lone=name in tables.MAY_RETURN_ONLY_ARGUMENT,
        conversion=conversion,
        random=name in tables.UNTAGGED_RANDOM or torch.Tag.nondeterministic_seeded in tags,
        off=_switches(overloads),
        dynamic=torch.Tag.dynamic_output_shape in tags and name != "one_hot",
        sync="it hands a value to the host" if sync else "",
        transfer="it copies host data to the device" if name in tables.HOST_TRANSFERS else "",
        uncertain=name in tables.CAPTURE_UNCERTAIN,
    )


def _overloads(name: str) -> list[Any]:
    """Torch's operator overloads for a Python name, without out= forms."""
    for prefix in ("", "_", "linalg_", "fft_", "special_"):
        packet = getattr(torch.ops.aten, prefix + name, None)
        if packet is not None:
            found = [getattr(packet, overload) for overload in packet.overloads()]
            return [op for op in found if not any(argument.is_out for argument in op._schema.arguments)]
    return []


def _promises_fresh(overloads: list[Any], views: tuple[int, ...], writes: tuple[int, ...]) -> bool:
    """Whether the schemas say that results share no memory with an argument, and are bound to be right.

    Autograd holds an op with a kernel of its own to its schema. One that is made of other ops (`reshape`) may return an
    argument where there is nothing to do, whatever it says.
    """
    if views or writes:
        return False
    # those on Python numbers and lists belong to TorchScript alone
    names = [name for overload in overloads if torch._C._dispatch_has_kernel(name := overload.name())]
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(names) and not any(has_kernel(name, "CompositeImplicitAutograd") for name in names)


def _annotated(overloads: Iterable[Any], wanted: Callable[[Any], bool]) -> tuple[int, ...]:
    """Positions of tensor arguments whose alias annotation is wanted, over all overloads."""
    positions = {
        position
        for overload in overloads
        for position, argument in enumerate(overload._schema.arguments)
        # Overloads on lists (`sort` of a Python list, `__getitem__` of one) are no tensor ops.
        if argument.alias_info is not None
        and wanted(argument.alias_info)
        and str(argument.type) in ("Tensor", "Optional[Tensor]")
    }
    return tuple(sorted(positions))


def _switches(overloads: Iterable[Any]) -> tuple[tuple[int, str, object], ...]:
    """Arguments that turn drawing off, as (position, name, value)."""
    found = {
        (position, argument.name, tables.DRAWS_NOTHING_WHEN[argument.name])
        for overload in overloads
        for position, argument in enumerate(overload._schema.arguments)
        if argument.name in tables.DRAWS_NOTHING_WHEN
    }
    return tuple(sorted(found, key=lambda switch: switch[:2]))
