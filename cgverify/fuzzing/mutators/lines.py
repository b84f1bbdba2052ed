"""Where mutators edit: the straight lines of an emitted trace, and what is certain of the values in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cgverify.fuzzing import edits
from cgverify.fuzzing.edits import Site
from cgverify.plan import Region

from thunder.core.proxies import Proxy, TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx


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


def lines_of(after: TraceCtx) -> Iterator[Line]:
    """Region bodies first, then the trace."""
    for site in edits.find_regions(after):
        yield Line(after, site)
    yield Line(after, None)


def ops_of(after: TraceCtx) -> Iterator[tuple[Line, int, BoundSymbol]]:
    """Every computing op that is not itself a region, with its line and position."""
    for line in lines_of(after):
        for index, bsym in enumerate(line.bsyms):
            if bsym.sym.id not in edits.STRUCTURAL and not bsym.sym.is_fusion:
                yield line, index, bsym


def without(line: Line, index: int) -> TraceCtx:
    """The trace without one op of the line."""
    bsyms = line.bsyms
    del bsyms[index]
    return line.edited(bsyms)


def with_inserted(line: Line, index: int, *inserted: BoundSymbol) -> TraceCtx:
    """The trace with ops inserted before the one at `index`."""
    bsyms = line.bsyms
    bsyms[index:index] = inserted
    return line.edited(bsyms)


def instead(line: Line, index: int, bsym: BoundSymbol) -> TraceCtx:
    """The trace with one op of the line replaced."""
    bsyms = line.bsyms
    bsyms[index] = bsym
    return line.edited(bsyms)


def names_of(proxies: Iterable[Proxy]) -> list[str]:
    """The proxies' names."""
    return [proxy.name for proxy in proxies]


def origin_of(line: Line, name: str) -> str:
    """The name that an alias made by `update_aliases` or `copy_` started from, within its line."""
    origin: dict[str, str] = {}
    for bsym in line.bsyms:
        if bsym.sym.name == "update_aliases":
            origin.update(zip(names_of(bsym.flat_proxy_outs), names_of(bsym.flat_proxy_args), strict=True))
        elif bsym.sym.name == "copy_":
            origin[bsym.output.name] = bsym.args[1].name
    while name in origin:
        name = origin[name]
    return name


def written_parameters(line: Line) -> set[str]:
    """Parameters of the line that are certainly written, themselves and not through a possible view."""
    trace = line.trace if line.site is None else line.site.body
    targets = {origin_of(line, bsym.args[1].name) for bsym in line.bsyms if bsym.sym.name == "copy_"}
    return targets & {name for name, _ in trace.siginfo().args}


def another(trace: TraceCtx, proxy: TensorProxy) -> Proxy:
    """A proxy with the same metadata and a new name."""
    return edits.made(trace, lambda: TensorProxy(like=proxy))


def claim(after: TraceCtx, change: Callable[[Region], Region]) -> TraceCtx | None:
    """The trace with the first plan that the change changes."""
    for site in edits.find_regions(after):
        if site.plan is not None and (plan := change(site.plan)) != site.plan:
            return edits.with_plan(after, site, plan)
    return None


def swapped(bsym: BoundSymbol) -> BoundSymbol | None:
    """The op with its first two arguments exchanged."""
    if len(bsym.args) < 2:
        return None
    first, second, *rest = bsym.args
    if not isinstance(first, TensorProxy) or not isinstance(second, TensorProxy) or first.name == second.name:
        return None
    return bsym.from_bsym(args=(second, first, *rest))


def other_number(bsym: BoundSymbol) -> BoundSymbol | None:
    """The op with one of its constants changed."""
    for index, argument in enumerate(bsym.args):
        if isinstance(argument, float) or (isinstance(argument, int) and not isinstance(argument, bool)):
            return bsym.from_bsym(args=(*bsym.args[:index], argument + 1, *bsym.args[index + 1 :]))
    return None


DRAWS = ("uniform", "rand", "randn", "randint")


def draws(after: TraceCtx) -> bool:
    """Whether a region certainly draws random numbers."""
    return any(bsym.sym.name in DRAWS for site in edits.find_regions(after) for bsym in site.body.bound_symbols)


# Ops that certainly write nothing and make their result in memory of their own.
PURE = ("add", "mul", "matmul", "sum", "exp", "relu")


def own_results(site: Site) -> set[str]:
    """Values that the region certainly makes in memory of its own."""
    return {
        proxy.name
        for bsym in site.body.bound_symbols
        if bsym.sym.id not in edits.STRUCTURAL and bsym.sym.name in PURE
        for proxy in bsym.flat_proxy_outs
    }
