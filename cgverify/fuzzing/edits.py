"""Edits on emitted traces: copies with one thing changed, in the trace, in a region's body, or in its plan.

Nothing is edited in place: each function returns new traces and new bound symbols. A region that is edited gets a
`Forged` callable that says of itself what a real one says (`body`, `source`, `plan`) and runs its body un-graphed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cgverify.plan import Region

from thunder.core import prims
from thunder.core.codeutils import SigInfo
from thunder.core.proxies import Proxy, TensorProxy
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.core.trace import TraceCtx, from_trace, tracectx
from thunder.executors import torchex

STRUCTURAL = (
    prims.PrimIDs.UNPACK_TRIVIAL,
    prims.PrimIDs.UNPACK_SEQUENCE,
    prims.PrimIDs.DEL,
    prims.PrimIDs.RETURN,
    prims.PrimIDs.COMMENT,
)


@dataclass
class Forged:
    """A region's callable made by hand.

    Attributes:
        body: the trace it claims to execute.
        source: the text it claims to execute.
        plan: the plan it claims to follow.
    """

    body: TraceCtx
    source: str
    plan: Region | None
    _run: Callable[..., Any] | None = field(default=None, repr=False)

    def __call__(self, *args: Any) -> Any:
        """Runs the body as it is."""
        if self._run is None:
            self._run = self.body.python_callable()
        return self._run(*args)


@dataclass(frozen=True)
class Site:
    """A region in an emitted trace.

    Attributes:
        index: its position in the trace.
        bsym: the bound symbol that calls it.
        called: its callable.
    """

    index: int
    bsym: BoundSymbol
    called: Any

    @property
    def body(self) -> TraceCtx:
        """The trace it executes."""
        body: TraceCtx = self.called.body
        return body

    @property
    def plan(self) -> Region | None:
        """Its plan."""
        plan: Region | None = self.called.plan
        return plan


def find_regions(trace: TraceCtx) -> Iterator[Site]:
    """The regions of a trace that say what they execute, in order."""
    for index, bsym in enumerate(trace.bound_symbols):
        called = (bsym._call_ctx or {}).get(bsym.sym.name)
        if bsym.sym.is_fusion and isinstance(getattr(called, "body", None), TraceCtx):
            yield Site(index, bsym, called)


def with_ops(trace: TraceCtx, bsyms: Sequence[BoundSymbol]) -> TraceCtx:
    """A copy of the trace with these bound symbols."""
    copy = from_trace(trace)
    copy.bound_symbols = list(bsyms)
    return copy


def replaced(trace: TraceCtx, index: int, *bsyms: BoundSymbol) -> TraceCtx:
    """A copy of the trace with the bound symbol at `index` replaced by others."""
    return with_ops(trace, [*trace.bound_symbols[:index], *bsyms, *trace.bound_symbols[index + 1 :]])


def with_parameters(trace: TraceCtx, names: Sequence[str]) -> TraceCtx:
    """A copy of the trace whose function has these parameters."""
    copy = with_ops(trace, trace.bound_symbols)
    signature = SigInfo(trace.siginfo().name)
    signature.args = [(name, None) for name in names]
    copy._siginfo = signature
    return copy


def computing(bsyms: Sequence[BoundSymbol]) -> list[BoundSymbol]:
    """The bound symbols that compute."""
    return [bsym for bsym in bsyms if bsym.sym.id not in STRUCTURAL]


def with_call(trace: TraceCtx, site: Site, called: object, **changes: Any) -> TraceCtx:
    """A copy of the trace whose region calls `called`, with the given fields of the bound symbol changed."""
    context = {site.bsym.sym.name: called}
    return replaced(trace, site.index, site.bsym.from_bsym(_call_ctx=context, **changes))


def with_plan(trace: TraceCtx, site: Site, plan: Region) -> TraceCtx:
    """A copy of the trace whose region claims another plan."""
    return with_call(trace, site, Forged(site.body, site.called.source, plan))


def with_source(trace: TraceCtx, site: Site, source: str) -> TraceCtx:
    """A copy of the trace whose region executes another text."""
    return with_call(trace, site, Forged(site.body, source, site.plan))


def with_body(trace: TraceCtx, site: Site, bsyms: Sequence[BoundSymbol], **changes: Any) -> TraceCtx:
    """A copy of the trace whose region has another body, in text and subsymbols too: only the meaning changed."""
    body = with_ops(site.body, bsyms)
    changes.setdefault("subsymbols", tuple(computing(bsyms)))
    forged = Forged(body, body.python(print_depth=1), _claimed(site, bsyms))
    return with_call(trace, site, forged, **changes)


def _claimed(site: Site, bsyms: Sequence[BoundSymbol]) -> Region | None:
    """The region's plan with the ops that these bound symbols stand for, by the names they define."""
    if site.plan is None:
        return None
    indices = dict(zip(map(_defined, computing(site.body.bound_symbols)), site.plan.ops, strict=False))
    found = tuple(indices[key] for bsym in computing(bsyms) if (key := _defined(bsym)) in indices)
    return replace(site.plan, ops=found)


def _defined(bsym: BoundSymbol) -> tuple[str, ...]:
    return tuple(proxy.name for proxy in bsym.flat_proxy_outs)


def made(trace: TraceCtx, make: Callable[[], Proxy]) -> Proxy:
    """A new proxy with a name that the trace does not use."""
    with tracectx(trace):
        return make()


def like(proxy: TensorProxy, *, name: str | None = None, **changes: Any) -> TensorProxy:
    """A proxy with the same metadata but for the changes; `name` keeps or sets its name."""
    fields = {"shape": proxy.shape, "device": proxy.device, "dtype": proxy.dtype, "requires_grad": proxy.requires_grad}
    with tracectx(TraceCtx(None)):
        return TensorProxy(name or proxy.name, **(fields | changes))


def torch_op(identifier: str, *args: Any, output: Any) -> BoundSymbol:
    """A bound symbol of an op of Thunder's torch executor, without decomposition."""
    return torchex.ex.opmap[identifier].bind(*args, output=output)


def unknown_op(name: str, argument: Proxy, output: Proxy) -> BoundSymbol:
    """A bound symbol of an op that nobody knows."""
    symbol = Symbol(name=name, id=name, meta=None)
    return BoundSymbol(symbol, (argument,), {}, output, _call_ctx={name: lambda value: value})


def deleted(*proxies: Proxy) -> BoundSymbol:
    """A DEL."""
    return prims.python_del.bind(*proxies, output=None)
