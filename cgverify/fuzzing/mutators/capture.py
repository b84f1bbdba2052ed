"""Mutators of capture: ops and numbers that no graph may hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cgverify.fuzzing import edits
from cgverify.fuzzing.edits import Site
from cgverify.fuzzing.mutators.base import mutator
from cgverify.fuzzing.mutators.lines import claim
from cgverify.verifier.contracts import CGVERIFY

from thunder.core import devices, dtypes
from thunder.core.proxies import FloatProxy, NumberProxy, TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx


@mutator("CG201")
def capture_item(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An `item` in a region."""

    def item(body: TraceCtx, tensor: TensorProxy) -> BoundSymbol:
        number = edits.made(body, lambda: FloatProxy())
        return edits.torch_op("item", tensor, output=number)

    return _append(after, item)


def _append(after: TraceCtx, make: Callable[[TraceCtx, TensorProxy], BoundSymbol]) -> TraceCtx | None:
    """An op more at the end of the first region's body."""
    for site in edits.find_regions(after):
        tensor = _region_tensor(site)
        if tensor is not None:
            *ops, last = site.body.bound_symbols
            return edits.with_body(after, site, [*ops, make(site.body, tensor), last])
    return None


def _region_tensor(site: Site) -> TensorProxy | None:
    """A device tensor that is alive at the end of the region's body."""
    returned = site.body.bound_symbols[-1].flat_proxy_args
    return next((proxy for proxy in returned if isinstance(proxy, TensorProxy)), None)


@mutator("CG201", replace(CGVERIFY, name="vouched for", trusted=frozenset({"item"})))
def vouch_for_item(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An `item` in a region, for which the user vouches: a number known to the host cannot be vouched for."""
    return capture_item(before, after)


@mutator("CG202")
def capture_host_copy(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A copy to the host in a region."""

    def to_host(body: TraceCtx, tensor: TensorProxy) -> BoundSymbol:
        copy = edits.made(body, lambda: TensorProxy(like=tensor, device=devices.cpu))
        return edits.torch_op("cpu", tensor, output=copy)

    return _append(after, to_host)


@mutator("CG203")
def claim_other_device(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region's plan names another device."""
    return claim(after, lambda plan: replace(plan, device="cuda:7"))


@mutator("CG204")
def capture_nonzero(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op whose result's shape depends on values, in a region."""

    def nonzero(body: TraceCtx, tensor: TensorProxy) -> BoundSymbol:
        indices = edits.made(body, lambda: TensorProxy(like=tensor, dtype=dtypes.int64))
        return edits.torch_op("nonzero", tensor, output=indices)

    return _append(after, nonzero)


@mutator("CG205")
def capture_unknown_op(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op that nobody knows, in a region."""

    def mystery(body: TraceCtx, tensor: TensorProxy) -> BoundSymbol:
        return edits.unknown_op("mystery", tensor, edits.made(body, lambda: TensorProxy(like=tensor)))

    return _append(after, mystery)


@mutator("CG206")
def pass_number(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A number known at run time only becomes an argument of a region."""
    number = next((p for b in after.bound_symbols for p in b.flat_proxy_outs if isinstance(p, NumberProxy)), None)
    for site in edits.find_regions(after):
        if number is None:
            number = edits.made(after, lambda: FloatProxy())
        return edits.with_call(after, site, site.called, args=(*site.bsym.args, number))
    return None
