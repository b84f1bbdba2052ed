"""What each op does besides computing its result, derived from torch's schemas and Thunder's decompositions.

Facts of one op: which results may share memory with which arguments, which results *are* an argument, which arguments
it writes, whether it draws random numbers, makes the host wait, moves data between host and device, or has a shape that
depends on values. Three sources are joined, each able to add an effect and none able to remove one that another saw:

1. torch's operator schemas (alias and mutation annotations, tags), looked up by the op's name;
2. the nested subsymbols, down to Thunder's prims: `batch_norm` shows its `copy_` there, `dropout` its `uniform`;
3. `optables.py`, for what neither declares.

An op known to none of them is worst case: it may write all memory, draw, and wait; `Facts.unknown` says why.

This is the only module of the verifier that imports torch and Thunder. It shares no table with the transform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from typing import Any

from cgverify.verifier import optables as tables

import torch
from thunder.core.devices import Device
from thunder.core.prims import PrimIDs
from thunder.core.proxies import CollectionProxy, NumberProxy, Proxy, ProxyTag, TensorProxy
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.core.trace import TraceCtx, tracectx

__all__ = [
    "NO_EFFECTS",
    "CollectionProxy",
    "Facts",
    "NumberProxy",
    "Proxy",
    "TensorProxy",
    "TraceCtx",
    "base_name",
    "callable_of",
    "compute_facts",
    "device_of",
    "flat_proxies",
    "is_host",
    "is_static",
    "metadata_of",
    "printing",
    "torch_literal",
]

_ANY = -1  # an argument position: every argument


@dataclass(frozen=True, slots=True)
class Signature:
    """What a symbol does whatever its arguments; positions count the arguments of the Python form.

    Attributes:
        known: whether anything vouches for the symbol; if not, its decomposition must.
        views: argument positions whose memory results may share; -1 stands for all.
        writes: argument positions written.
        identity: results are the arguments themselves.
        lone: results share memory only with an argument that is the only tensor.
        conversion: results share memory only if dtype and device stay.
        random: draws random numbers, but for the switches in `off`.
        off: (position, name, value): draws nothing when that argument has that value.
        dynamic: the result's shape depends on values.
        sync: why the host waits, or empty.
        transfer: why data crosses between host and device, or empty.
        uncertain: nobody promises that it can be captured.
        opaque: touches Python state: ordered with everything.
    """

    known: bool = True
    views: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    identity: bool = False
    lone: bool = False
    conversion: bool = False
    random: bool = False
    off: tuple[tuple[int, str, object], ...] = ()
    dynamic: bool = False
    sync: str = ""
    transfer: str = ""
    uncertain: bool = False
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What one op does, by the names of its arguments and results.

    Attributes:
        identities: result -> the argument it is.
        views: result -> arguments whose memory it may share.
        writes: arguments written, in order.
        draws: draws random numbers.
        dynamic: why the shape of a result depends on values, or empty.
        sync: why the host waits for the device, or empty.
        transfer: why data crosses between host and device, or empty.
        unknown: why the op's effects are not known, or empty; then it may do anything.
        uncertain: why nobody promises that it can be captured, or empty.
        opaque: touches Python state or is unknown: ordered with everything.
        trusted: unknown, but the user vouches that it has no hidden writes and can be captured.
    """

    identities: dict[str, str] = field(default_factory=dict)
    views: dict[str, tuple[str, ...]] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    draws: bool = False
    dynamic: str = ""
    sync: str = ""
    transfer: str = ""
    unknown: str = ""
    uncertain: str = ""
    opaque: bool = False
    trusted: bool = False

    @property
    def worst_case(self) -> bool:
        """Whether the op may do anything."""
        return bool(self.unknown) and not self.trusted


NO_EFFECTS = Facts()


def compute_facts(bsym: BoundSymbol, *, trusted: bool = False) -> Facts:
    """The facts of one bound symbol, through subsymbols of any depth; linear in their number.

    A trusted op that nothing else is known of writes nothing, but may draw and hand out its arguments.
    """
    gather = _Gather(bsym)
    gather.visit(bsym)
    facts = gather.facts()
    if not trusted:
        return facts
    if not facts.unknown:
        return replace(facts, trusted=True)
    reads = tuple(dict.fromkeys(proxy.name for proxy in bsym.flat_proxy_args))
    views = {proxy.name: reads for proxy in bsym.flat_proxy_outs if proxy.name not in reads}
    return replace(facts, trusted=True, opaque=False, draws=True, views=views)


# --------------------------------------------------------------------------------------------- symbols


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


def signature(symbol: Symbol) -> Signature:
    """What the symbol does whatever its arguments."""
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
    if executor in ("torch", "sdpa") or (executor is None and _is_torchs_name(identifier)):
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
        views = (_ANY,)
    elif not views and (name in tables.MAY_RETURN_ARGUMENT or conversion):
        views = (0,)
    writes = tables.UNDECLARED_WRITES.get(name) or _annotated(overloads, lambda alias: alias.is_write)
    sync = name in tables.HOST_SYNCS or torch.Tag.data_dependent_output in tags
    tabled = name in tables.KNOWN_PURE or name in tables.UNTAGGED_RANDOM or name in tables.UNDECLARED_WRITES
    return Signature(
        known=bool(overloads or views or tabled or sync or name in tables.HOST_TRANSFERS | tables.CAPTURE_UNCERTAIN),
        views=views,
        writes=writes,
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


# --------------------------------------------------------------------------------------------- one op


class _Gather:
    """Walks one bound symbol and all its subsymbols, joining what each adds."""

    def __init__(self, top: BoundSymbol) -> None:
        self.top = top
        # name -> the top op's arguments whose memory it may share
        self.share: dict[str, tuple[str, ...]] = {p.name: (p.name,) for p in top.flat_proxy_args}
        self.identities: dict[str, str] = {}
        self.writes: dict[str, None] = {}
        self.draws = self.opaque = False
        self.dynamic = self.sync = self.transfer = self.unknown = self.uncertain = ""

    def visit(self, bsym: BoundSymbol) -> None:
        kind = bsym.sym.id
        if kind is PrimIDs.RETURN or kind is PrimIDs.DEL or kind is PrimIDs.COMMENT or kind is PrimIDs.UNPACK_TRIVIAL:
            return
        rule = signature(bsym.sym)
        subsymbols = bsym.subsymbols
        if not rule.known and not subsymbols and not _is_trivial(bsym):
            self.unknown = self.unknown or f"`{bsym.sym.name}` has no schema, no decomposition and no table entry"
            return
        for sub in subsymbols:
            self.visit(sub)
        if rule.known:
            self.apply(rule, bsym)

    def apply(self, rule: Signature, bsym: BoundSymbol) -> None:
        """Joins the effects of one symbol with these arguments."""
        if rule.identity or rule.views:
            self.alias(rule, bsym)
        for position in rule.writes:
            for proxy in _at(bsym, position):
                self.writes.update(dict.fromkeys(self.share.get(proxy.name, ())))
        if rule.writes and rule.writes == (1,) and base_name(bsym.sym) == "copy_":
            self.returns_argument(bsym, 1)
        name = str(bsym.sym.name)
        self.draws = self.draws or (rule.random and not _is_off(rule, bsym))
        self.opaque = self.opaque or rule.opaque
        if rule.dynamic:
            self.dynamic = self.dynamic or f"`{name}` has a result whose shape depends on values"
        if rule.sync:
            self.sync = self.sync or f"`{name}` makes the host wait: {rule.sync}"
        if rule.transfer:
            self.transfer = self.transfer or f"`{name}` crosses between host and device: {rule.transfer}"
        if rule.uncertain:
            self.uncertain = self.uncertain or f"`{name}` may wait for the host, depending on library and size"
        self.check_arguments(name, bsym)

    def alias(self, rule: Signature, bsym: BoundSymbol) -> None:
        arguments = list(bsym.flat_proxy_args) if rule.identity else [p for i in rule.views for p in _at(bsym, i)]
        outputs = bsym.flat_proxy_outs
        if rule.identity:
            for output, argument in zip(outputs, arguments, strict=False):
                self.link(output, [argument])
                if bsym is self.top and output.name != argument.name:
                    self.identities[output.name] = argument.name
            return
        if rule.lone and sum(isinstance(p, TensorProxy) for p in arguments) > 1:
            return
        if rule.conversion:
            if bsym.kwargs.get("copy") is True:
                return
            arguments = [a for a in arguments if all(_same_format(a, output) for output in outputs)]
        for output in outputs:
            self.link(output, arguments)

    def link(self, output: Proxy, arguments: Iterable[Proxy]) -> None:
        shared = dict.fromkeys(self.share.get(output.name, ()))
        for argument in arguments:
            shared.update(dict.fromkeys(self.share.get(argument.name, ())))
        self.share[output.name] = tuple(shared)

    def returns_argument(self, bsym: BoundSymbol, position: int) -> None:
        for output in bsym.flat_proxy_outs:
            for argument in _at(bsym, position):
                self.link(output, [argument])
                if bsym is self.top and output.name != argument.name:
                    self.identities[output.name] = argument.name

    def check_arguments(self, name: str, bsym: BoundSymbol) -> None:
        """Effects that depend on the arguments: device crossings and indexing."""
        devices = {p.device for p in bsym.flat_proxy_args if isinstance(p, TensorProxy)}
        for output in bsym.flat_proxy_outs:
            if devices and isinstance(output, TensorProxy) and output.device not in devices:
                sources = ", ".join(sorted(_device_name(device) for device in devices))
                self.transfer = self.transfer or f"`{name}` copies between {sources} and {device_of(output)}"
        plain = base_name(bsym.sym)
        reason = _indexing(plain, bsym) if plain in _INDEXING else ""
        if reason:
            self.sync = self.sync or f"`{name}` makes the host wait: {reason}"

    def facts(self) -> Facts:
        inputs = {p.name for p in self.top.flat_proxy_args}
        outputs = [p.name for p in self.top.flat_proxy_outs]
        views = {name: shared for name in outputs if name not in inputs and (shared := self.share.get(name, ()))}
        unknown = bool(self.unknown)
        plain = not (views or self.writes or self.draws or self.dynamic or self.sync or self.transfer)
        if plain and not (unknown or self.uncertain or self.opaque):
            return NO_EFFECTS
        return Facts(
            identities=self.identities,
            views=views,
            writes=tuple(self.writes),
            draws=self.draws,
            dynamic=self.dynamic,
            sync=self.sync,
            transfer=self.transfer,
            unknown=self.unknown,
            uncertain=self.uncertain,
            opaque=self.opaque or unknown,
        )


def _is_trivial(bsym: BoundSymbol) -> bool:
    """A composite that Thunder decomposed to nothing: it only hands back its own arguments or constants."""
    if bsym.sym.is_prim or bsym.sym.is_fusion or bsym.sym.executor is not None:
        return False
    inputs = {p.name for p in bsym.flat_proxy_args}
    return all(p.name in inputs for p in bsym.flat_proxy_outs)


def _at(bsym: BoundSymbol, position: int) -> tuple[Proxy, ...]:
    """Proxies in the argument at a position; all of them if the op was called some other way."""
    if position == _ANY or position >= len(bsym.args):
        return tuple(bsym.flat_proxy_args)
    return tuple(flat_proxies(bsym.args[position]))


def _is_off(rule: Signature, bsym: BoundSymbol) -> bool:
    for position, name, value in rule.off:
        given = bsym.kwargs[name] if name in bsym.kwargs else bsym.args[position] if position < len(bsym.args) else None
        if given is not None and not isinstance(given, Proxy) and _is_switch_off(given, value):
            return True
    return False


def _is_switch_off(given: object, value: object) -> bool:
    if isinstance(value, bool):
        return given is value
    return isinstance(given, (int, float)) and not isinstance(given, bool) and given == value


def _same_format(a: Proxy, b: Proxy) -> bool:
    if not isinstance(a, TensorProxy) or not isinstance(b, TensorProxy):
        return True
    return a.dtype == b.dtype and device_of(a) == device_of(b)


_INDEXING = frozenset({"one_hot", "repeat_interleave", "__getitem__", "getitem", "copy_with_setitem", "index_put"})


def _indexing(name: str, bsym: BoundSymbol) -> str:
    """Why an indexing op waits or transfers with these arguments, or empty."""
    if name == "one_hot":
        classes = bsym.args[1] if len(bsym.args) > 1 else bsym.kwargs.get("num_classes", -1)
        return "without num_classes it reads the largest class" if classes == -1 else ""
    if name == "repeat_interleave" and len(bsym.args) > 1 and isinstance(bsym.args[1], TensorProxy):
        return "" if bsym.kwargs.get("output_size") is not None else "it sums the repeats on the host"
    key = bsym.args[1] if len(bsym.args) > 1 else None
    writes_scalar = name == "copy_with_setitem" and not isinstance(bsym.args[-1], TensorProxy)
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, list) and part:
            return "a Python list as an index is uploaded to the device"
        if isinstance(part, TensorProxy):
            if is_host(part):
                return "the index is a host tensor"
            if "bool" in str(part.dtype) and not writes_scalar:
                return "a boolean mask is counted on the host"
    return ""


# --------------------------------------------------------------------------------------------- proxies


def flat_proxies(tree: object) -> Iterator[Proxy]:
    """The proxies in a nest of tuples, lists, dicts and slices, in order."""
    if isinstance(tree, Proxy):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from flat_proxies(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from flat_proxies(item)
    elif isinstance(tree, slice):
        yield from flat_proxies((tree.start, tree.stop, tree.step))


def device_of(proxy: Proxy) -> str:
    """`cuda:0`, `cpu`, ... for a tensor; empty for anything else."""
    return _device_name(proxy.device) if isinstance(proxy, TensorProxy) else ""


@cache
def _device_name(device: Device) -> str:
    return str(device.device_str())


def is_host(proxy: Proxy) -> bool:
    """Whether the proxy is a tensor in host memory."""
    return isinstance(proxy, TensorProxy) and device_of(proxy).startswith("cpu")


def metadata_of(proxy: Proxy) -> tuple[object, ...]:
    """What the trace claims about a value, comparable: kind, and for tensors shape, dtype, device, requires_grad."""
    if isinstance(proxy, TensorProxy):
        shape = tuple(size.name if isinstance(size, Proxy) else int(size) for size in proxy.shape)
        return ("tensor", shape, str(proxy.dtype), device_of(proxy), bool(proxy.requires_grad))
    return (type(proxy).__name__,)


def callable_of(bsym: BoundSymbol) -> object | None:
    """The Python object that the executed text calls for this op, None if it comes with an import."""
    context = bsym._call_ctx
    return None if context is None else context.get(bsym.sym.name)


def printing(trace: TraceCtx) -> Any:
    """A context in which bound symbols of the trace can be printed."""
    return tracectx(trace)


def torch_literal(value: object) -> str:
    """How the text writes a torch object, such as `torch.float32` and `torch.device('cuda:0')`; empty for others."""
    if isinstance(value, torch.dtype):
        return str(value)
    return f"torch.device({str(value)!r})" if isinstance(value, torch.device) else ""


def is_static(proxy: Proxy) -> bool:
    """Whether Thunder tagged the value as memory at a fixed address."""
    return ProxyTag.STATIC_MEMORY_LOCATION in proxy.tags
