"""What is checked: the trace before, the trace after, its regions, and the contract; with facts computed once.

Everything a rule needs is read from here. Facts are recomputed from the traces; a region's plan is kept as a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cgverify.diagnostics import Location
from cgverify.ir import Op, TraceView, view_trace
from cgverify.plan import Region as RegionClaim
from cgverify.verifier.contracts import CGVERIFY, PURE_REWRITE, THUNDER_CUDAGRAPH, Contract
from cgverify.verifier.divergence import Divergence, compare
from cgverify.verifier.effects import RegionEffects, compute_region_effects
from cgverify.verifier.locations import line_of, locate
from cgverify.verifier.names import NameFault, find_faults
from cgverify.verifier.region import Region
from cgverify.verifier.semantics import Facts, TraceCtx, callable_of, compute_facts
from cgverify.verifier.state import State, run
from cgverify.verifier.text import Text, parse_text, unprintable
from cgverify.verifier.values import Numbers, Step


@dataclass(eq=False)
class Program:
    """A straight line of ops with a text of its own: the trace after, or a region's body.

    Attributes:
        name: the function's or the region's name.
        ops: in order.
        parameters: names defined from the start.
        view: the trace it is.
    """

    subject: Subject
    name: str
    ops: tuple[Op, ...]
    parameters: tuple[str, ...]
    view: TraceView
    region: Region | None = None

    def at(self, op: Op) -> Location:
        """One of its ops."""
        return self.subject.at(op) if self.region is None else self.subject.inside(self.region, op)

    @property
    def whole(self) -> Location:
        """The program as a whole: for a region, the op that calls it."""
        return self.subject.whole() if self.region is None else self.subject.at(self.region.op)

    @cached_property
    def faults(self) -> tuple[NameFault, ...]:
        """Wrong uses of names."""
        return tuple(find_faults(self.ops, self.parameters))

    @cached_property
    def text(self) -> Text | None:
        """The executed text, parsed."""
        if self.region is not None:
            return self.region.text
        try:
            source = self.view.trace.python(print_depth=1)
        except Exception as error:  # a malformed bound symbol: Thunder's printers raise whatever they meet
            return unprintable(error)
        return parse_text(source, self.name)

    def provides(self, name: str) -> bool:
        """Whether the text is executed with a global of this name."""
        return name in self._brought or name in self._context

    @cached_property
    def _brought(self) -> frozenset[str]:
        """Globals that the bound symbols brought when they were printed."""
        brought: set[str] = set()
        for op in self.ops:
            brought.update(op.bsym._call_ctx or (), op.bsym._import_ctx, op.bsym._object_ctx)
        return frozenset(brought)

    @cached_property
    def _context(self) -> dict[str, Any]:
        """All globals that the text is executed with; to ask for them prints every bound symbol."""
        context: dict[str, Any] = self.view.trace.python_ctx()
        return context

    def op_defining(self, name: str) -> Op | None:
        """The op that defines a name, None for a parameter without one."""
        return next((op for op in self.ops if name in op.outputs), None)

    def op_naming(self, name: str) -> Op | None:
        """The first op that calls or reads a name."""
        return next((op for op in self.ops if op.name == name or name in op.reads), None)


@dataclass
class Subject:
    """One rewrite under check.

    Attributes:
        before: the trace before the transform.
        after: the trace it emitted.
        given: the contract asked for, None to choose one.
    """

    before: TraceView
    after: TraceView
    given: Contract | None = None
    _facts: dict[int, Facts] = field(default_factory=dict)
    _regions: dict[int, Region] = field(default_factory=dict)
    _effects: dict[int, RegionEffects] = field(default_factory=dict)

    def facts(self, op: Op) -> Facts:
        """The op's facts, computed once per bound symbol."""
        key = id(op.bsym)
        known = self._facts.get(key)
        if known is None:
            trusted = self.contract.trusted
            known = self._facts[key] = compute_facts(
                op.bsym, trusted=bool(trusted) and (op.name in trusted or op.id in trusted)
            )
        return known

    @cached_property
    def contract(self) -> Contract:
        """The contract given, or the one that fits the regions found."""
        if self.given is not None:
            return self.given
        if any(region.claim is not None for region in self.regions):
            return CGVERIFY
        named = any(THUNDER_CUDAGRAPH.captures(region.name, False) for region in self.regions)
        return THUNDER_CUDAGRAPH if named else PURE_REWRITE

    @cached_property
    def shared_fusions(self) -> frozenset[int]:
        """Callables of fusions that both traces call: single ops to both."""
        after = frozenset(_fusions(self.after.trace.bound_symbols))
        return after & frozenset(_fusions(self.before.trace.bound_symbols)) if after else after

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The fusions that only the trace after has, in order."""
        return tuple(found for op in self.after.ops if (found := self.region_of(op)) is not None)

    @cached_property
    def captured(self) -> tuple[Region, ...]:
        """The regions that become graphs under the contract."""
        return tuple(r for r in self.regions if self.contract.captures(r.name, r.claim is not None))

    def effects(self, region: Region) -> RegionEffects:
        """What a region does to its arguments, computed once."""
        known = self._effects.get(id(region))
        if known is None:
            known = self._effects[id(region)] = compute_region_effects(region, self.facts)
        return known

    def region_of(self, op: Op) -> Region | None:
        """The op as a region, None if it is a single op: no fusion, one both traces call, or one of unknown content."""
        if not op.is_fusion:
            return None
        called = callable_of(op.bsym)
        body = getattr(called, "body", None)
        if id(called) in self.shared_fusions or not (isinstance(body, TraceCtx) or op.bsym.subsymbols):
            return None
        return self._region(op, called, body)

    def _region(self, op: Op, called: object | None, body: object) -> Region:
        cached = self._regions.get(id(op.bsym))
        if cached is None:
            source = getattr(called, "source", None)
            claim = getattr(called, "plan", None)
            cached = self._regions[id(op.bsym)] = Region(
                op,
                called,
                view_trace(body) if isinstance(body, TraceCtx) else None,
                source if isinstance(source, str) else None,
                claim if isinstance(claim, RegionClaim) else None,
            )
        return cached

    @cached_property
    def outer(self) -> Program:
        """The trace after as a program."""
        return Program(self, self.after.name, self.after.ops, self.after.parameters, self.after)

    @cached_property
    def programs(self) -> tuple[Program, ...]:
        """The trace after, and the body of each region that has one."""
        bodies = (
            Program(self, region.name, region.body.ops, region.body.parameters, region.body, region)
            for region in self.regions
            if region.body is not None
        )
        return (self.outer, *bodies)

    @cached_property
    def executions(self) -> tuple[State, State]:
        """Both traces executed symbolically, with one numbering."""
        numbers = Numbers()
        before = run(self.before, self.region_of, self.facts, numbers)
        return before, run(self.after, self.region_of, self.facts, numbers)

    @cached_property
    def divergences(self) -> tuple[Divergence, ...]:
        """Where the two executions part; empty if the traces are equal."""
        return compare(*self.executions)

    def forget(self) -> None:
        """Drops the computed facts that refer back to this subject, so that all is freed at once, without a search."""
        for name in ("outer", "programs", "executions", "divergences"):
            vars(self).pop(name, None)

    # ------------------------------------------------------------------------------------------- locations

    def at(self, op: Op) -> Location:
        """An op of the trace after."""
        return locate(self.after, op)

    def inside(self, region: Region, op: Op) -> Location:
        """An op of a region's body, by its place there."""
        trace = self.after.trace if region.body is None else region.body.trace
        return Location(region.name, op.index, line_of(trace, op), op.source)

    def was(self, op: Op) -> Location:
        """An op of the trace before."""
        place = locate(self.before, op)
        return replace(place, trace=f"{place.trace} (before)")

    def step(self, step: Step) -> Location:
        """A step of the trace after, wherever it stands."""
        if step.region is None:
            return self.at(step.op)
        return self.inside(step.region, step.op)

    def step_was(self, step: Step) -> Location:
        """A step of the trace before."""
        if step.region is None:
            return self.was(step.op)
        place = self.inside(step.region, step.op)
        return replace(place, trace=f"{place.trace} (before)")

    def whole(self) -> Location:
        """The trace after as a whole."""
        return Location(self.after.name)


def _fusions(bsyms: Iterable[Any]) -> Iterator[int]:
    """Ids of the callables of all fusions, inside regions too."""
    for bsym in bsyms:
        if bsym.sym.is_fusion:
            called = callable_of(bsym)
            if called is not None:
                yield id(called)
            body = getattr(called, "body", None)
            yield from _fusions(body.bound_symbols if isinstance(body, TraceCtx) else bsym.subsymbols)
