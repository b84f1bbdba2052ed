"""Mutators: each corrupts one thing in a valid rewrite and names the code that the verifier must find.

`apply(before, after)` returns a corrupted copy of `after`, or None where there is nothing of the kind to corrupt. The
first place that fits is taken, so a mutator is a function of the traces. Some judge a valid trace under the contract of
a runtime that it does not fit: those carry the contract. `MUTATORS` lists all; `catches` says whether the verifier did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from cgverify.diagnostics import Report
from cgverify.fuzzing import edits
from cgverify.fuzzing.edits import Site
from cgverify.plan import InputRole, OutputRole, Region
from cgverify.verifier import verify
from cgverify.verifier.contracts import CGVERIFY, THUNDER_CUDAGRAPH, Contract

from thunder.core import devices, dtypes, prims
from thunder.core.proxies import FloatProxy, NumberProxy, Proxy, ProxyTag, TensorProxy, variableify
from thunder.core.pytree import tree_flatten, tree_unflatten
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx
from thunder.executors import torchex

Apply = Callable[[TraceCtx, TraceCtx], TraceCtx | None]


@dataclass(frozen=True)
class Mutator:
    """One way to break a rewrite.

    Attributes:
        name: what it does.
        code: the rule that must speak.
        apply: (before, after) to a corrupted after, or None where it does not apply.
        contract: what to judge under; None leaves the choice to the verifier.
    """

    name: str
    code: str
    apply: Apply
    contract: Contract | None = None

    def report(self, before: TraceCtx, after: TraceCtx) -> Report | None:
        """The verifier's report on the corrupted rewrite; None where the mutator does not apply."""
        corrupted = self.apply(before, after)
        return None if corrupted is None else verify(before, corrupted, contract=self.contract)

    def catches(self, before: TraceCtx, after: TraceCtx) -> bool | None:
        """Whether the verifier rejects the corrupted rewrite by this code; None where the mutator does not apply."""
        report = self.report(before, after)
        return None if report is None else not report.ok and self.code in report.codes


MUTATORS: list[Mutator] = []


def mutator(code: str, contract: Contract | None = None) -> Callable[[Apply], Apply]:
    """Registers the decorated function, named by its own name."""

    def register(apply: Apply) -> Apply:
        MUTATORS.append(Mutator(apply.__name__.replace("_", "-"), code, apply, contract))
        return apply

    return register


# ------------------------------------------------------------------------------------------- where to edit


@dataclass(frozen=True)
class Line:
    """A straight line of ops that can be edited: the trace itself (`site` is None) or one region's body."""

    trace: TraceCtx
    site: Site | None

    @property
    def bsyms(self) -> list[BoundSymbol]:
        """Its bound symbols."""
        return list((self.trace if self.site is None else self.site.body).bound_symbols)

    def edited(self, bsyms: list[BoundSymbol]) -> TraceCtx:
        """The trace with this line replaced, all sides of a region alike."""
        if self.site is None:
            return edits.with_ops(self.trace, bsyms)
        return edits.with_body(self.trace, self.site, bsyms)


def _lines(after: TraceCtx) -> Iterator[Line]:
    """Region bodies first, then the trace."""
    for site in edits.find_regions(after):
        yield Line(after, site)
    yield Line(after, None)


def _ops(after: TraceCtx) -> Iterator[tuple[Line, int, BoundSymbol]]:
    """Every computing op that is not itself a region, with its line and position."""
    for line in _lines(after):
        for index, bsym in enumerate(line.bsyms):
            if bsym.sym.id not in edits.STRUCTURAL and not bsym.sym.is_fusion:
                yield line, index, bsym


def _without(line: Line, index: int) -> TraceCtx:
    bsyms = line.bsyms
    del bsyms[index]
    return line.edited(bsyms)


def _with(line: Line, index: int, *inserted: BoundSymbol) -> TraceCtx:
    bsyms = line.bsyms
    bsyms[index:index] = inserted
    return line.edited(bsyms)


def _instead(line: Line, index: int, bsym: BoundSymbol) -> TraceCtx:
    bsyms = line.bsyms
    bsyms[index] = bsym
    return line.edited(bsyms)


def _names(proxies: Any) -> list[str]:
    return [proxy.name for proxy in proxies]


# ------------------------------------------------------------------------------------------- structure


@mutator("CG101")
def drop_region_output(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region no longer returns a value that is used outside, on any of its sides."""
    for site in edits.find_regions(after):
        if not site.bsym.output or site.plan is None:
            continue
        *kept, _ = site.bsym.flat_proxy_outs
        *ops, _ = site.body.bound_symbols
        body = edits.with_ops(site.body, [*ops, prims.python_return.bind(tuple(kept), output=None)])
        plan = replace(site.plan, outputs=site.plan.outputs[:-1])
        forged = edits.Forged(body, body.python(print_depth=1), plan)
        return edits.with_call(after, site, forged, output=list(kept))
    return None


@mutator("CG101")
def read_undefined(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op reads a value that nothing defines."""
    for line, index, bsym in _ops(after):
        for position, argument in enumerate(bsym.args):
            if isinstance(argument, TensorProxy):
                other = _another(after, argument)
                args = (*bsym.args[:position], other, *bsym.args[position + 1 :])
                return _instead(line, index, bsym.from_bsym(args=args))
    return None


@mutator("CG102")
def delete_early(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A DEL before the last use."""
    for line in reversed(list(_lines(after))):
        for index, bsym in enumerate(line.bsyms):
            if bsym.sym.id in edits.STRUCTURAL and bsym.sym.id is not prims.PrimIDs.RETURN:
                continue
            for proxy in bsym.flat_proxy_args:
                return _with(line, index, edits.deleted(proxy))
    return None


@mutator("CG102")
def delete_early_in_region(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A DEL in a region's body, just before RETURN hands the value out."""
    for site in edits.find_regions(after):
        *ops, last = site.body.bound_symbols
        if last.flat_proxy_args:
            return edits.with_body(after, site, [*ops, edits.deleted(last.flat_proxy_args[0]), last])
    return None


@mutator("CG105")
def delete_twice(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A DEL repeated."""
    for line in _lines(after):
        for index, bsym in enumerate(line.bsyms):
            if bsym.sym.id is prims.PrimIDs.DEL:
                return _with(line, index, bsym)
    return None


@mutator("CG106")
def define_twice(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op repeated under the same name."""
    for line, index, bsym in _ops(after):
        if bsym.flat_proxy_outs and not set(_names(bsym.flat_proxy_outs)) & set(_names(bsym.flat_proxy_args)):
            return _with(line, index, bsym)
    return None


@mutator("CG103")
def swap_call_arguments(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two arguments of a region's call change places."""
    for site in edits.find_regions(after):
        if len(site.bsym.args) > 1:
            first, second, *rest = site.bsym.args
            return edits.with_call(after, site, site.called, args=(second, first, *rest))
    return None


@mutator("CG103")
def swap_call_results(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two results of a region's call change places."""
    for site in edits.find_regions(after):
        if len(site.bsym.output) > 1:
            first, second, *rest = site.bsym.output
            return edits.with_call(after, site, site.called, output=[second, first, *rest])
    return None


@mutator("CG103")
def drop_call_argument(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region is called with one argument less."""
    for site in edits.find_regions(after):
        if site.bsym.args:
            return edits.with_call(after, site, site.called, args=site.bsym.args[:-1])
    return None


@mutator("CG104")
def other_text(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region executes a text in which two arguments of one op changed places, or a number differs."""
    for site in edits.find_regions(after):
        corrupted = _altered_region(after, site)
        if corrupted is not None:
            changed = next(s for s in edits.find_regions(corrupted) if s.index == site.index)
            return edits.with_source(after, site, changed.called.source)
    return None


@mutator("CG104")
def other_subsymbols(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region executes another body than its subsymbols say."""
    for site in edits.find_regions(after):
        corrupted = _altered_region(after, site)
        if corrupted is not None:
            changed = next(s for s in edits.find_regions(corrupted) if s.index == site.index)
            return edits.with_call(after, site, changed.called)
    return None


def _altered_region(after: TraceCtx, site: Site) -> TraceCtx | None:
    """The trace with one op of the region altered."""
    for line, index, bsym in _ops(after):
        if line.site is None or line.site.index != site.index:
            continue
        altered = _swapped(bsym) or _other_number(bsym)
        if altered is not None:
            return _instead(line, index, altered)
    return None


@mutator("CG104")
def claim_other_ops(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region's plan lists its first op twice."""
    return _claim(after, lambda plan: replace(plan, ops=(*plan.ops, plan.ops[0])))


@mutator("CG107")
def break_text(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region's text loses its last bracket."""
    for site in edits.find_regions(after):
        head, bracket, tail = site.called.source.rpartition(")")
        if bracket:
            return edits.with_source(after, site, head + tail)
    return None


@mutator("CG107")
def lose_callable(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region's call context no longer holds its callable."""
    for site in edits.find_regions(after):
        return edits.replaced(after, site.index, site.bsym.from_bsym(_call_ctx={}))
    return None


@mutator("CG108")
def swap_parameters(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two parameters change places."""
    names = [name for name, _ in after.siginfo().args]
    if len(names) < 2:
        return None
    return edits.with_parameters(after, [names[1], names[0], *names[2:]])


@mutator("CG108")
def return_less(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """RETURN loses its last value."""
    returned = after.bound_symbols[-1]
    shortened = _shortened(returned.args)
    if shortened is None:
        return None
    return edits.replaced(after, len(after.bound_symbols) - 1, returned.from_bsym(args=shortened))


def _shortened(tree: Any) -> Any:
    """The nest without its last leaf; None if it has none."""
    if isinstance(tree, dict):
        for key in reversed(tree):
            shorter = _shortened(tree[key])
            if shorter is not None:
                return tree | {key: shorter}
        return None
    if not isinstance(tree, (tuple, list)):
        return None
    for index in reversed(range(len(tree))):
        item = tree[index]
        shorter = _shortened(item) if isinstance(item, (tuple, list, dict)) else ()
        if isinstance(item, (tuple, list, dict)):
            if shorter is not None:
                return type(tree)([*tree[:index], shorter, *tree[index + 1 :]])
        else:
            return type(tree)([*tree[:index], *tree[index + 1 :]])
    return None


@mutator("CG108")
def change_dtype(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A result claims another dtype."""
    for index, bsym in enumerate(after.bound_symbols):
        for position, proxy in enumerate(bsym.flat_proxy_outs):
            if bsym.sym.id in edits.STRUCTURAL or not isinstance(proxy, TensorProxy):
                continue
            flat, spec = tree_flatten(bsym.output)
            wrong = dtypes.float64 if proxy.dtype != dtypes.float64 else dtypes.float32
            flat[flat.index(proxy) if position == 0 else position] = edits.like(proxy, dtype=wrong)
            return edits.replaced(after, index, bsym.from_bsym(output=tree_unflatten(flat, spec)))
    return None


@mutator("CG108")
def return_nothing(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """The RETURN is gone."""
    return edits.with_ops(after, after.bound_symbols[:-1])


@mutator("CG109")
def shadow_global(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A parameter is renamed to the name of a global that the text calls."""
    names = [name for name, _ in after.siginfo().args]
    called = next((site.bsym.sym.name for site in edits.find_regions(after)), None)
    proxies = {p.name: p for b in after.bound_symbols for p in (*b.flat_proxy_args, *b.flat_proxy_outs)}
    for name in names:
        proxy = proxies.get(name)
        if called is None or not isinstance(proxy, TensorProxy):
            continue
        swap = {variableify(proxy): edits.like(proxy, name=called)}
        renamed = [bsym.from_bsym_swap_proxies(swap) for bsym in after.bound_symbols]
        new_names = [called if other == name else other for other in names]
        return edits.with_parameters(edits.with_ops(after, renamed), new_names)
    return None


@mutator("CG109")
def share_region_name(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two regions get one name, so that one callable serves both."""
    sites = list(edits.find_regions(after))
    if len(sites) < 2:
        return None
    name = sites[0].bsym.sym.name
    symbol = replace(sites[1].bsym.sym, name=name, _hash=None)
    return edits.replaced(after, sites[1].index, sites[1].bsym.from_bsym(sym=symbol, _call_ctx={name: sites[1].called}))


# ------------------------------------------------------------------------------------------- capture


def _region_tensor(site: Site) -> TensorProxy | None:
    """A device tensor that is alive at the end of the region's body."""
    returned = site.body.bound_symbols[-1].flat_proxy_args
    return next((proxy for proxy in returned if isinstance(proxy, TensorProxy)), None)


def _append(after: TraceCtx, make: Callable[[TraceCtx, TensorProxy], BoundSymbol]) -> TraceCtx | None:
    """An op more at the end of the first region's body."""
    for site in edits.find_regions(after):
        tensor = _region_tensor(site)
        if tensor is not None:
            *ops, last = site.body.bound_symbols
            return edits.with_body(after, site, [*ops, make(site.body, tensor), last])
    return None


@mutator("CG201")
def capture_item(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An `item` in a region."""

    def item(body: TraceCtx, tensor: TensorProxy) -> BoundSymbol:
        number = edits.made(body, lambda: FloatProxy())
        return edits.torch_op("item", tensor, output=number)

    return _append(after, item)


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
    return _claim(after, lambda plan: replace(plan, device="cuda:7"))


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


# ------------------------------------------------------------------------------------------- memory and ordering


def _claim(after: TraceCtx, change: Callable[[Region], Region]) -> TraceCtx | None:
    """The trace with the first plan that the change changes."""
    for site in edits.find_regions(after):
        if site.plan is not None and (plan := change(site.plan)) != site.plan:
            return edits.with_plan(after, site, plan)
    return None


_UNGUARDED = replace(CGVERIFY, name="unguarded", guards_addresses=False)


def _claim_static(after: TraceCtx, names: set[str]) -> TraceCtx | None:
    """The trace with one copied input out of these called static in a plan."""
    for site in edits.find_regions(after):
        entries = () if site.plan is None else site.plan.inputs
        for position, entry in enumerate(entries):
            if site.plan is not None and entry.role is InputRole.COPIED and entry.name in names:
                changed = (*entries[:position], replace(entry, role=InputRole.STATIC), *entries[position + 1 :])
                return edits.with_plan(after, site, replace(site.plan, inputs=changed))
    return None


@mutator("CG301", _UNGUARDED)
def claim_static(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan calls an argument of the function static, and the runtime compares no addresses."""
    marked = {
        proxy.name
        for bsym in after.bound_symbols
        for proxy in bsym.flat_proxy_args
        if ProxyTag.STATIC_MEMORY_LOCATION in proxy.tags
    }
    return _claim_static(after, {name for name, _ in after.siginfo().args} - marked)


@mutator("CG306", _UNGUARDED)
def pass_fresh_as_static(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region reads a fresh value in place, which its plan calls static, and the runtime compares no addresses."""
    for site in edits.find_regions(after):
        for position, argument in enumerate(site.bsym.args):
            if site.plan is None or not isinstance(argument, TensorProxy):
                continue
            entries = list(site.plan.inputs)
            entries[position] = replace(entries[position], role=InputRole.STATIC)
            fresh = _another(after, argument)
            forged = edits.Forged(site.body, site.called.source, replace(site.plan, inputs=tuple(entries)))
            args = (*site.bsym.args[:position], fresh, *site.bsym.args[position + 1 :])
            called = edits.with_call(after, site, forged, args=args)
            made = edits.torch_op("exp", argument, output=fresh)
            return edits.replaced(called, site.index, made, called.bound_symbols[site.index])
    return None


@mutator("CG304", replace(CGVERIFY, name="unaware", guards_overlap=False))
def alias_arguments(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region says that an argument it writes shares memory with another one, and the runtime does not look."""
    for line, index, bsym in _ops(after):
        if line.site is None or bsym.sym.name != "update_aliases" or len(bsym.flat_proxy_args) != 1:
            continue
        written = _written_parameters(line) & set(_names(bsym.flat_proxy_args))
        others = [p for p in line.site.bsym.flat_proxy_args if isinstance(p, TensorProxy) and p.name not in written]
        other = next(iter(others), None)
        if written and other is not None and not _is_static_input(line.site, {other.name, *written}):
            new = _another(line.site.body, other)
            both = (*bsym.flat_proxy_args, other)
            return _instead(line, index, bsym.from_bsym(args=(both,), output=(*bsym.flat_proxy_outs, new)))
    return None


def _is_static_input(site: Site, names: set[str]) -> bool:
    """Whether the plan calls one of these inputs static."""
    entries = () if site.plan is None else site.plan.inputs
    return any(entry.name in names and entry.role is InputRole.STATIC for entry in entries)


def _saving(after: TraceCtx, proxy: Proxy) -> BoundSymbol:
    """RETURN as a forward trace has it, with one saved value."""
    returned = after.bound_symbols[-1]
    first = returned.args[0] if len(returned.args) == 1 else returned.args
    return returned.from_bsym(args=(first, ((proxy,), ())))


@mutator("CG305", replace(THUNDER_CUDAGRAPH, name="one pool", shares_pool=True))
def save_in_shared_pool(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region's own result is saved for a backward trace, and the runtime's graphs share a pool."""
    for site in edits.find_regions(after):
        own = _own_results(site)
        for proxy in site.bsym.flat_proxy_outs:
            if proxy.name in own:
                return edits.replaced(after, len(after.bound_symbols) - 1, _saving(after, proxy))
    return None


def _own_results(site: Site) -> set[str]:
    """Values that the region certainly makes in memory of its own."""
    return {
        proxy.name
        for bsym in site.body.bound_symbols
        if bsym.sym.id not in edits.STRUCTURAL and bsym.sym.name in ("add", "mul", "matmul", "sum", "exp", "relu")
        for proxy in bsym.flat_proxy_outs
    }


@mutator("CG307")
def overwrite_saved(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A value is saved for a backward trace and then written."""
    for bsym in edits.computing(after.bound_symbols):
        for proxy in bsym.flat_proxy_outs:
            if isinstance(proxy, TensorProxy) and proxy.name not in _names(bsym.flat_proxy_args):
                write = torchex.ex.opmap["copy_"].bind(proxy, proxy, grad_enabled=True, output=_another(after, proxy))
                *ops, _ = after.bound_symbols
                alive = [b for b in ops if b.sym.id is not prims.PrimIDs.DEL]
                return edits.with_ops(after, [*alive, write, _saving(after, proxy)])
    return None


@mutator("CG303")
def claim_fresh(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan calls a view of an input fresh."""
    for site in edits.find_regions(after):
        if site.plan is None:
            continue
        views = _views_of_parameters(site)
        outputs = tuple(replace(e, role=OutputRole.FRESH) if e.name in views else e for e in site.plan.outputs)
        if outputs != site.plan.outputs:
            return edits.with_plan(after, site, replace(site.plan, outputs=outputs))
    return None


def _views_of_parameters(site: Site) -> set[str]:
    """Values of the region that certainly share memory with a parameter."""
    views = {name for name, _ in site.body.siginfo().args}
    for bsym in site.body.bound_symbols:
        if bsym.sym.name in (
            "transpose",
            "permute",
            "unsqueeze",
            "update_aliases",
            "shallow_copy",
        ) and views.issuperset(_names(bsym.flat_proxy_args)):
            views.update(_names(bsym.flat_proxy_outs))
    return views


@mutator("CG401")
def claim_unwritten(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan forgets that an input is written."""
    for site in edits.find_regions(after):
        written = _written_parameters(Line(after, site))
        if site.plan is not None and written:
            inputs = tuple(replace(e, written=False) if e.name in written else e for e in site.plan.inputs)
            return edits.with_plan(after, site, replace(site.plan, inputs=inputs))
    return None


def _written_parameters(line: Line) -> set[str]:
    """Parameters of the line that are certainly written, themselves and not through a possible view."""
    trace = line.trace if line.site is None else line.site.body
    targets = {_origin(line, bsym.args[1].name) for bsym in line.bsyms if bsym.sym.name == "copy_"}
    return targets & {name for name, _ in trace.siginfo().args}


@mutator("CG405")
def claim_not_random(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan forgets that the region draws."""
    return _claim(after, lambda plan: replace(plan, random=False)) if _draws(after) else None


_DRAWS = ("uniform", "rand", "randn", "randint")


def _draws(after: TraceCtx) -> bool:
    """Whether a region certainly draws random numbers."""
    return any(bsym.sym.name in _DRAWS for site in edits.find_regions(after) for bsym in site.body.bound_symbols)


@mutator("CG302", THUNDER_CUDAGRAPH)
def hand_out_graph_memory(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """The runtime returns the graph's own memory."""
    handed = set(_names(before.bound_symbols[-1].flat_proxy_args))
    own = {name for site in edits.find_regions(after) for name in _own_results(site)}
    return edits.with_ops(after, after.bound_symbols) if handed & own else None


@mutator("CG302")
def claim_lent(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A plan lends a result that the caller gets."""
    handed = set(_names(before.bound_symbols[-1].flat_proxy_args))
    for site in edits.find_regions(after):
        own = handed & _own_results(site)
        if site.plan is not None and own:
            outputs = tuple(replace(e, role=OutputRole.LENT) if e.name in own else e for e in site.plan.outputs)
            if outputs != site.plan.outputs:
                return edits.with_plan(after, site, replace(site.plan, outputs=outputs))
    return None


@mutator("CG404", THUNDER_CUDAGRAPH)
def warm_up_draws(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """The runtime warms a drawing region up without restoring the generator."""
    return edits.with_ops(after, after.bound_symbols) if _draws(after) else None


@mutator("CG403", replace(THUNDER_CUDAGRAPH, name="in place, warmed up", writes_back=True))
def warm_up_writes(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """The runtime warms a writing region up at the caller's address."""
    written = any(_written_parameters(Line(after, site)) for site in edits.find_regions(after))
    return edits.with_ops(after, after.bound_symbols) if written else None


@mutator("CG401")
def drop_write(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A write to a parameter is gone; what read its result reads the parameter."""
    parameters = {name for name, _ in after.siginfo().args}
    for line, index, bsym in _ops(after):
        if bsym.sym.name == "copy_" and _origin(line, bsym.args[1].name) in parameters:
            swap = {variableify(bsym.output): bsym.args[1]}
            rest = [other.from_bsym_swap_proxies(swap) for other in line.bsyms[index + 1 :] if _is_plain(other)]
            if len(rest) == len(line.bsyms) - index - 1 and line.site is None:
                return line.edited([*line.bsyms[:index], *rest])
            return _without(line, index)
    return None


def _is_plain(bsym: BoundSymbol) -> bool:
    return not bsym.sym.is_fusion


def _origin(line: Line, name: str) -> str:
    """The name that an alias made by `update_aliases` or `copy_` started from, within its line."""
    origin: dict[str, str] = {}
    for bsym in line.bsyms:
        if bsym.sym.name == "update_aliases":
            origin.update(zip(_names(bsym.flat_proxy_outs), _names(bsym.flat_proxy_args), strict=True))
        elif bsym.sym.name == "copy_":
            origin[bsym.output.name] = bsym.args[1].name
    while name in origin:
        name = origin[name]
    return name


@mutator("CG402")
def move_read_past_write(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op that reads memory before a write to it reads it after."""
    for line, index, write in _ops(after):
        if write.sym.name != "copy_":
            continue
        target = _origin(line, write.args[1].name)
        bsyms = line.bsyms
        for position in reversed(range(index)):
            bsym = bsyms[position]
            if bsym.sym.id in edits.STRUCTURAL or bsym.sym.is_fusion or bsym.sym.name in ("update_aliases", "copy_"):
                continue
            reads = {_origin(line, name) for name in _names(bsym.flat_proxy_args)}
            passed = [other for other in bsyms[position + 1 : index + 1] if other.sym.id is not prims.PrimIDs.DEL]
            between = {proxy.name for other in passed for proxy in other.flat_proxy_args}
            if target in reads and not between & set(_names(bsym.flat_proxy_outs)):
                return line.edited([*bsyms[:position], *passed, bsym, *bsyms[index + 1 :]])
    return None


@mutator("CG402")
def swap_draws(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two random draws change places."""
    for line in _lines(after):
        bsyms = line.bsyms
        draws = [index for index, bsym in enumerate(bsyms) if bsym.sym.name in _DRAWS and not bsym.flat_proxy_args]
        if len(draws) > 1:
            first, second = draws[:2]
            bsyms.insert(first, bsyms.pop(second))
            return line.edited(bsyms)
    return None


# ------------------------------------------------------------------------------------------- equivalence


def _other_number(bsym: BoundSymbol) -> BoundSymbol | None:
    """The op with one of its constants changed."""
    for index, argument in enumerate(bsym.args):
        if isinstance(argument, float) or (isinstance(argument, int) and not isinstance(argument, bool)):
            return bsym.from_bsym(args=(*bsym.args[:index], argument + 1, *bsym.args[index + 1 :]))
    return None


def _swapped(bsym: BoundSymbol) -> BoundSymbol | None:
    """The op with its first two arguments exchanged."""
    if len(bsym.args) < 2:
        return None
    first, second, *rest = bsym.args
    if not isinstance(first, TensorProxy) or not isinstance(second, TensorProxy) or first.name == second.name:
        return None
    return bsym.from_bsym(args=(second, first, *rest))


@mutator("CG501")
def change_constant(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A constant differs."""
    for line, index, bsym in _ops(after):
        altered = _other_number(bsym)
        if altered is not None:
            return _instead(line, index, altered)
    return None


@mutator("CG501")
def swap_operands(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two arguments of an op change places."""
    for line, index, bsym in _ops(after):
        altered = _swapped(bsym)
        if altered is not None and bsym.sym.name != "copy_":
            return _instead(line, index, altered)
    return None


@mutator("CG501")
def change_op(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A multiplication becomes a division."""
    for line, index, bsym in _ops(after):
        if bsym.sym.name == "mul" and bsym.sym.executor is torchex.ex:
            return _instead(line, index, bsym.from_bsym(sym=torchex.ex.opmap["true_divide"]))
    return None


@mutator("CG501")
def swap_returned(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """Two values of RETURN change places."""
    returned = after.bound_symbols[-1]
    flat, spec = tree_flatten(returned.args)
    for first in range(len(flat)):
        for second in range(first + 1, len(flat)):
            one, other = flat[first], flat[second]
            if isinstance(one, TensorProxy) and isinstance(other, TensorProxy) and _differ(before, one, other):
                flat[first], flat[second] = other, one
                args = tree_unflatten(flat, spec)
                return edits.replaced(after, len(after.bound_symbols) - 1, returned.from_bsym(args=args))
    return None


def _differ(trace: TraceCtx, one: Proxy, other: Proxy) -> bool:
    """Whether two values come from ops that differ in more than the name they define."""
    makers = [
        (bsym.sym.name, str(bsym.args), str(bsym.kwargs))
        for proxy in (one, other)
        for bsym in trace.bound_symbols
        if proxy.name in _names(bsym.flat_proxy_outs)
    ]
    return one.name != other.name and len(set(makers)) == 2


@mutator("CG502")
def drop_op(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op without effects is gone."""
    effects = ("copy_", "update_aliases", "shallow_copy", "clear_mutable_collection", "batch_norm", "instance_norm")
    for line, index, bsym in _ops(after):
        if bsym.sym.name not in effects and bsym.flat_proxy_outs:
            return _without(line, index)
    return None


@mutator("CG503")
def repeat_op(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """An op runs again under another name."""
    for line, index, bsym in _ops(after):
        if isinstance(bsym.output, TensorProxy) and bsym.sym.name not in ("copy_", "shallow_copy"):
            return _with(line, index + 1, bsym.from_bsym(output=_another(after, bsym.output)))
    return None


def _another(trace: TraceCtx, proxy: TensorProxy) -> Proxy:
    """A proxy with the same metadata and a new name."""
    return edits.made(trace, lambda: TensorProxy(like=proxy))


@mutator("CG504")
def call_without_arguments(before: TraceCtx, after: TraceCtx) -> TraceCtx | None:
    """A region is called without arguments, so that nothing is known of what it computes."""
    for site in edits.find_regions(after):
        if all(set(_names(bsym.flat_proxy_args)) for bsym in edits.computing(site.body.bound_symbols)):
            return edits.with_call(after, site, site.called, args=())
    return None
