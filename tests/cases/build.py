"""How a case is written: a pair of traces and what the verifier must say about it.

`@good` and `@bad(...)` register a function that returns (before, after). An expectation is a code and a place, such as
`"CG102 computation:4"` or `"CG201 CUDAGraph0:1"`: the trace's or region's name and the position of the op in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cgverify.fuzzing import edits
from cgverify.plan import InputRole, OutputRole, Region, RegionInput, RegionOutput
from cgverify.verifier.contracts import Contract
from tests.builders import TraceBuilder

from thunder.core import prims
from thunder.core.codeutils import SigInfo
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.core.trace import TraceCtx

Pair = tuple[TraceCtx, TraceCtx]


@dataclass(frozen=True)
class Case:
    """One pair of traces.

    Attributes:
        make: makes (before, after).
        expected: every error the verifier must report, and no other; empty for a good case.
        contract: what to judge under; None leaves the choice to the verifier.
    """

    make: Callable[[], Pair]
    expected: tuple[str, ...] = ()
    contract: Contract | None = None

    @property
    def name(self) -> str:
        """The module's code and the function's name."""
        return f"{self.make.__module__.rsplit('.', 1)[-1]}-{self.make.__name__}"


CASES: list[Case] = []


def good(make: Callable[[], Pair]) -> Callable[[], Pair]:
    """A rewrite that must be proved."""
    CASES.append(Case(make))
    return make


def good_under(contract: Contract) -> Callable[[Callable[[], Pair]], Callable[[], Pair]]:
    """A rewrite that must be proved under this contract."""

    def register(make: Callable[[], Pair]) -> Callable[[], Pair]:
        CASES.append(Case(make, (), contract))
        return make

    return register


def bad(*expected: str, contract: Contract | None = None) -> Callable[[Callable[[], Pair]], Callable[[], Pair]]:
    """A rewrite of which the verifier must say exactly this."""

    def register(make: Callable[[], Pair]) -> Callable[[], Pair]:
        CASES.append(Case(make, expected, contract))
        return make

    return register


def chain() -> TraceCtx:
    """`t0 = x + y; t1 = t0 * 2.0; t2 = exp(t1); return (t2,)`: ops 2, 3 and 4, RETURN 5."""
    b = TraceBuilder("x", "y")
    return b.done(b.op("exp", b.op("mul", b.op("add", b["x"], b["y"]), 2.0)))


def fuse(
    trace: TraceCtx,
    first: int,
    last: int,
    name: str = "CUDAGraph0",
    *,
    written: Iterable[str] = (),
    views: Iterable[str] = (),
    lent: Iterable[str] = (),
    static: Iterable[str] = (),
    random: bool = False,
    device: str = "cuda:0",
    plan: bool = True,
) -> TraceCtx:
    """The trace with the ops from `first` to `last`, both included, in one region, as a transform would emit it."""
    bsyms = trace.bound_symbols[first : last + 1]
    inside = {p.name: p for bsym in bsyms for p in bsym.flat_proxy_outs}
    inputs = {p.name: p for bsym in bsyms for p in bsym.flat_proxy_args if p.name not in inside}
    used = {p.name for bsym in trace.bound_symbols[last + 1 :] for p in bsym.flat_proxy_args}
    outputs = [proxy for key, proxy in inside.items() if key in used]
    roles = dict.fromkeys(views, OutputRole.MAY_ALIAS_INPUT) | dict.fromkeys(lent, OutputRole.LENT)
    claim = Region(
        name,
        tuple(range(first, last + 1)),
        tuple(
            RegionInput(key, InputRole.STATIC if key in set(static) else InputRole.COPIED, key in set(written))
            for key in inputs
        ),
        tuple(RegionOutput(p.name, roles.get(p.name, OutputRole.FRESH)) for p in outputs),
        device,
        random,
    )
    body = TraceCtx(None)
    body._siginfo = SigInfo(name)
    body._siginfo.args = [(key, None) for key in inputs]
    body.args = tuple(inputs.values())
    body.names.update(inputs, inside)
    body.bound_symbols = [*bsyms, prims.python_return.bind(tuple(outputs), output=None)]
    called = edits.Forged(body, body.python(print_depth=1), claim if plan else None)
    symbol = Symbol(name=name, meta=None, is_fusion=True)
    call = BoundSymbol(symbol, tuple(inputs.values()), {}, outputs, tuple(bsyms), _call_ctx={name: called})
    return edits.with_ops(trace, [*trace.bound_symbols[:first], call, *trace.bound_symbols[last + 1 :]])


def bare(trace: TraceCtx, first: int, last: int, name: str = "CUDAGraph1") -> TraceCtx:
    """The same with a region that says nothing of its body, as Thunder's own transform emits it."""
    fused = fuse(trace, first, last, name)
    call = fused.bound_symbols[first]
    return edits.replaced(fused, first, call.from_bsym(_call_ctx={name: _call_nothing}))


def _call_nothing(*args: object) -> list[object]:
    return list(args)


def saving(trace: TraceCtx, *names: str) -> TraceCtx:
    """The trace as a forward trace that saves these values for its backward trace."""
    *ops, last = trace.bound_symbols
    proxies = {p.name: p for bsym in ops for p in bsym.flat_proxy_outs}
    saved = tuple(proxies[name] for name in names)
    arguments = [p for bsym in ops if bsym.sym.id is prims.PrimIDs.UNPACK_TRIVIAL for p in bsym.flat_proxy_outs]
    wrapped = {"output": last.args[0], "flat_args": arguments, "flat_output": last.args[0]}
    return edits.with_ops(trace, [*ops, prims.python_return.bind(wrapped, (saved, ()), output=None)])


def moved(trace: TraceCtx, source: int, target: int) -> TraceCtx:
    """The trace with the op at `source` standing at `target`."""
    bsyms = list(trace.bound_symbols)
    bsyms.insert(target, bsyms.pop(source))
    return edits.with_ops(trace, bsyms)


def without(trace: TraceCtx, index: int) -> TraceCtx:
    """The trace without one op."""
    return edits.replaced(trace, index)


def after_op(trace: TraceCtx, index: int, *bsyms: BoundSymbol) -> TraceCtx:
    """The trace with bound symbols inserted after the op at `index`."""
    return edits.replaced(trace, index, trace.bound_symbols[index], *bsyms)


def edited_body(trace: TraceCtx, change: Callable[[list[BoundSymbol]], list[BoundSymbol]]) -> TraceCtx:
    """The trace with the body of its first region changed, on all sides alike."""
    site = next(edits.find_regions(trace))
    return edits.with_body(trace, site, change(list(site.body.bound_symbols)))
