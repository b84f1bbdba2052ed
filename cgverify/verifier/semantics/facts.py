"""What one op does besides computing its result: its signature, its arguments and its decomposition, joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from cgverify.verifier.semantics.proxies import device_name, device_of, flat_proxies, is_host
from cgverify.verifier.semantics.signatures import ANY, Signature, base_name, signature

from thunder.core.prims import PrimIDs
from thunder.core.proxies import Proxy, TensorProxy
from thunder.core.symbol import BoundSymbol


@dataclass(frozen=True, slots=True)
class Facts:
    """What one op does, by the names of its arguments and results.

    Attributes:
        identities: result -> the argument it is.
        views: result -> arguments whose memory it may share.
        writes: arguments written, in order.
        writes_own: writes some memory, if only what it made itself: a fusion may.
        draws: draws random numbers.
        dynamic: why the shape of a result depends on values, or empty.
        sync: why the host waits for the device, or empty.
        transfer: why data crosses between host and device, or empty.
        unknown: why the op's effects are not known, or empty; then it may do anything, and the other facts say so.
        uncertain: why nobody promises that it can be captured, or empty.
        opaque: touches Python state or is unknown: ordered with everything.
        trusted: unknown, but the user vouches that it has no hidden writes and can be captured.
    """

    identities: dict[str, str] = field(default_factory=dict)
    views: dict[str, tuple[str, ...]] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    writes_own: bool = False
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
    if facts.unknown:
        reads = tuple(dict.fromkeys(proxy.name for proxy in bsym.flat_proxy_args))
        views = {proxy.name: reads for proxy in bsym.flat_proxy_outs if proxy.name not in reads}
        facts = replace(facts, opaque=not trusted, draws=True, views=views, writes=() if trusted else reads)
    return replace(facts, trusted=True) if trusted else facts


class _Gather:
    """Walks one bound symbol and all its subsymbols, joining what each adds."""

    def __init__(self, top: BoundSymbol) -> None:
        self.top = top
        # name -> the top op's arguments whose memory it may share
        self.share: dict[str, tuple[str, ...]] = {p.name: (p.name,) for p in top.flat_proxy_args}
        self.identities: dict[str, str] = {}
        self.writes: dict[str, None] = {}
        self.draws = self.opaque = self.writes_own = False
        self.dynamic = self.sync = self.transfer = self.unknown = self.uncertain = ""

    def visit(self, bsym: BoundSymbol) -> None:
        kind = bsym.sym.id
        if kind is PrimIDs.RETURN or kind is PrimIDs.DEL or kind is PrimIDs.COMMENT or kind is PrimIDs.UNPACK_TRIVIAL:
            return
        rule = signature(bsym.sym)
        subsymbols = bsym.subsymbols
        if not rule.known and not subsymbols and not _is_trivial(bsym):
            nowhere = "it has no schema, no decomposition and no entry in cgverify's tables"
            self.unknown = self.unknown or f"nothing says what `{bsym.sym.name}` does: {nowhere}"
            return
        written = len(self.writes)
        for sub in subsymbols:
            self.visit(sub)
        if rule.known:
            self.apply(rule, bsym)
        # what writes an argument where its schema has no writes was told to work in place, and returns it
        if rule.fresh and bsym.sym.executor is not None and len(self.writes) == written:
            self.share.update((proxy.name, ()) for proxy in bsym.flat_proxy_outs)

    def apply(self, rule: Signature, bsym: BoundSymbol) -> None:
        """Joins the effects of one symbol with these arguments."""
        if rule.identity or rule.views:
            self.alias(rule, bsym)
        self.writes_own = self.writes_own or bool(rule.writes)
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
            self.uncertain = self.uncertain or f"`{name}` may make the host wait, depending on library and size"
        if bsym is self.top or not bsym.subsymbols:  # what stands between them crosses no border that its parts do not
            self.check_devices(name, bsym)
        reason = _indexing(base_name(bsym.sym), bsym) if rule.indexing else ""
        if reason:
            self.sync = self.sync or f"`{name}` makes the host wait: {reason}"

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

    def check_devices(self, name: str, bsym: BoundSymbol) -> None:
        """Whether a result is on another device than every argument."""
        devices = [p.device for p in bsym.flat_proxy_args if isinstance(p, TensorProxy)]
        for output in bsym.flat_proxy_outs if devices else ():
            if isinstance(output, TensorProxy) and output.device not in devices:
                sources = ", ".join(sorted({device_name(device) for device in devices}))
                self.transfer = self.transfer or f"`{name}` copies between {sources} and {device_of(output)}"

    def facts(self) -> Facts:
        inputs = {p.name for p in self.top.flat_proxy_args}
        outputs = [p.name for p in self.top.flat_proxy_outs]
        views = {name: shared for name in outputs if name not in inputs and (shared := self.share.get(name, ()))}
        plain = not (
            views or self.writes or self.writes_own or self.draws or self.dynamic or self.sync or self.transfer
        )
        if plain and not (self.unknown or self.uncertain or self.opaque):
            return NO_EFFECTS
        return Facts(
            identities=self.identities,
            views=views,
            writes=tuple(self.writes),
            writes_own=self.writes_own,
            draws=self.draws,
            dynamic=self.dynamic,
            sync=self.sync,
            transfer=self.transfer,
            unknown=self.unknown,
            uncertain=self.uncertain,
            opaque=self.opaque,
        )


def _is_trivial(bsym: BoundSymbol) -> bool:
    """A composite that Thunder decomposed to nothing: it only hands back its own arguments or constants."""
    if bsym.sym.is_prim or bsym.sym.is_fusion or bsym.sym.executor is not None:
        return False
    inputs = {p.name for p in bsym.flat_proxy_args}
    return all(p.name in inputs for p in bsym.flat_proxy_outs)


def _at(bsym: BoundSymbol, position: int) -> tuple[Proxy, ...]:
    """Proxies in the argument at a position; all of them if the op was called some other way."""
    if position == ANY or position >= len(bsym.args):
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


def _indexing(name: str, bsym: BoundSymbol) -> str:
    """Why an indexing op waits or transfers with these arguments, or empty."""
    if name == "one_hot":
        classes = bsym.args[1] if len(bsym.args) > 1 else bsym.kwargs.get("num_classes", -1)
        return "without num_classes it reads the largest class" if classes == -1 else ""
    if name == "repeat_interleave" and len(bsym.args) > 1 and isinstance(bsym.args[1], TensorProxy):
        return "" if bsym.kwargs.get("output_size") is not None else "it sums the repeats on the host"
    key = bsym.args[1] if len(bsym.args) > 1 else None
    writes_scalar = name == "copy_with_setitem" and not any(isinstance(a, TensorProxy) for a in bsym.args[2:])
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, list) and part:
            return "a Python list as an index is uploaded to the device"
        if isinstance(part, TensorProxy):
            if is_host(part):
                return "the index is a host tensor"
            if "bool" in str(part.dtype) and not writes_scalar:
                return "a boolean mask is counted on the host"
    return ""
