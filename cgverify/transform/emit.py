"""The new trace: one fusion symbol per region, everything else as it was, DELs placed afresh.

A region's symbol takes its inputs as positional arguments and returns a list, as Thunder's own fusions do, and shows
the graphed ops as its subsymbols. What runs is the callable in its `_call_ctx`, made by `make_callable(region, body)`
from the region and the body: a trace whose parameters and results are the region's inputs and outputs, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cgverify.ir import OpKind, TraceView
from cgverify.plan import CapturePlan, Region
from cgverify.transform.partition import Phase
from cgverify.transform.signature import RegionSignature

from thunder.core import prims
from thunder.core.codeutils import SigInfo
from thunder.core.proxies import Proxy
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.core.trace import TraceCtx, from_trace

MakeCallable = Callable[[Region, TraceCtx], Callable[..., Any]]


def emit_trace(
    view: TraceView,
    phases: Sequence[Phase],
    plan: CapturePlan,
    make_callable: MakeCallable,
    *,
    comments: bool = False,
) -> TraceCtx:
    """Builds the rewritten trace; the original is left as it was.

    Args:
        view: the original trace.
        phases: the schedule; each phase with a device has its region in `plan`, in order.
        plan: the regions and the ops left out.
        make_callable: turns a region and its body into what is executed.
        comments: whether each op left out gets a comment with its reason above it.
    """
    reasons = {left.op: f"not graphed: {left.reason}" for left in plan.left_out} if comments else {}
    regions = iter(plan.regions)
    body: list[BoundSymbol] = [op.bsym for op in view.ops if op.kind is OpKind.PARAMETER]
    for phase in phases:
        if phase.device is not None:
            body.append(emit_region(view, next(regions), make_callable))
            continue
        for index in phase.ops:
            if index in reasons:
                body.append(prims.comment.bind(reasons[index], output=None))
            body.append(view.ops[index].bsym)
    if view.return_op is not None:
        body.append(view.return_op.bsym)
    trace = from_trace(view.trace)
    trace.bound_symbols = place_dels(body, view.returned)
    trace._siginfo = RegionSignature(trace.siginfo(), [region.name for region in plan.regions])
    return trace


def emit_region(view: TraceView, region: Region, make_callable: MakeCallable) -> BoundSymbol:
    """The bound symbol that stands for one region."""
    bsyms = [view.ops[index].bsym for index in region.ops]
    inputs = [view.values[entry.name] for entry in region.inputs]
    outputs = [view.values[entry.name] for entry in region.outputs]
    body = emit_body(region.name, bsyms, inputs, outputs)
    symbol = Symbol(name=region.name, meta=None, is_fusion=True)
    context = {region.name: make_callable(region, body)}
    return BoundSymbol(symbol, tuple(inputs), {}, outputs, tuple(bsyms), _call_ctx=context)


def emit_body(name: str, bsyms: Sequence[BoundSymbol], inputs: Sequence[Proxy], outputs: Sequence[Proxy]) -> TraceCtx:
    """The trace of one region: `inputs` are its parameters, the tuple of `outputs` its result."""
    body = TraceCtx(None)
    signature = SigInfo(name)
    signature.args = [(proxy.name, None) for proxy in inputs]
    body._siginfo = signature
    body.args = tuple(inputs)
    for bsym in bsyms:
        for proxy in (*bsym.flat_proxy_args, *bsym.flat_proxy_outs):
            body.names.add(proxy.name)
    result = prims.python_return.bind(tuple(outputs), output=None)
    body.bound_symbols = place_dels([*bsyms, result], [proxy.name for proxy in outputs])
    return body


def place_dels(bsyms: Iterable[BoundSymbol], kept: Iterable[str]) -> list[BoundSymbol]:
    """`bsyms` without their DELs, and a new DEL after the last use of each value that is not in `kept`.

    Names of one DEL stand in the order results, then arguments, as Thunder writes them. Linear in the number of names.
    """
    seen = set(kept)
    backwards: list[BoundSymbol] = []
    for bsym in reversed(list(bsyms)):
        if bsym.sym.id is prims.PrimIDs.DEL:
            continue
        if bsym.sym.id not in (prims.PrimIDs.COMMENT, prims.PrimIDs.UNPACK_TRIVIAL, prims.PrimIDs.RETURN):
            dead: dict[str, Proxy] = {}
            for proxy in (*bsym.flat_proxy_outs, *bsym.flat_proxy_args):
                if proxy.name not in seen:
                    seen.add(proxy.name)
                    dead[proxy.name] = proxy
            if dead:
                backwards.append(prims.python_del.bind(*dead.values(), output=None))
        backwards.append(bsym)
    backwards.reverse()
    return backwards
