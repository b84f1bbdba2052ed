"""The abstract state of a trace: which value each name holds, and what has happened to the memory behind it.

Both programs are numbered by dependence alone, with one shared table, so that equal numbers mean equal computations:

- value: a number (what was computed, from what), the storage classes its memory may belong to, and the object it is.
- storage class: the caller's memory on one device (parameters may alias each other), or one fresh allocation.
- version of a storage class: None until it is written; then a chain of the writes, each with the number of the op.
- draws: per device, the chain of the ops that drew random numbers; world: the chain of opaque ops.

Transfer of one op: its number is (symbol, literals, for each argument its number and the versions of its classes, the
position of the chains it is on). Its results get (number, position) and a fresh class, or the classes of the arguments
they may be views of; an identity passes its argument on, object and all. A write moves the written classes to
(old version, number). An opaque op also writes its arguments and the caller's memory and draws everywhere.

A number read by `item` is its own value, except to an op to which it and the 0-d tensor are one, to the last bit: such
an op sees the tensor, in the state its memory was in then, whichever of the two it is given.

A region is transferred by executing its body on the values of its arguments, so the same chains run through it.
There is no join: traces are straight lines.

Not covered: what two classes that are the caller's on one device really share (they are one class, which is safe and
costs nothing unless a transform reorders writes to different parameters).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cgverify.ir import Op, OpKind, TraceView
from cgverify.verifier.semantics import (
    CollectionProxy,
    Facts,
    Proxy,
    TensorProxy,
    device_of,
    is_scalar_like_tensor,
    scalar_source,
)
from cgverify.verifier.values import (
    Leaf,
    Numbers,
    Operand,
    Root,
    Step,
    Value,
    given_roots,
    is_callers_memory,
    literal_key,
    symbol_key,
)

if TYPE_CHECKING:
    from cgverify.verifier.region import Region


@dataclass
class State:
    """The abstract state while a trace is executed, and the record of what it did."""

    numbers: Numbers
    facts: Callable[[Op], Facts]
    values: dict[str, Value] = field(default_factory=dict)
    versions: dict[Root, int] = field(default_factory=dict)
    draws: dict[str, int] = field(default_factory=dict)
    world: int | None = None
    steps: list[Step] = field(default_factory=list)
    makers: dict[int, Step] = field(default_factory=dict)  # number of a drawn value -> the step that drew it
    writers: dict[int, Step] = field(default_factory=dict)  # version -> the step that made it
    returned: tuple[Leaf, ...] = ()
    structure: Hashable = None
    seen: set[int] = field(default_factory=set)  # numbers of all values and versions that ever were
    positions: set[int] = field(default_factory=set)  # positions reached on the chains of draws and of opaque ops
    origins: set[int] = field(default_factory=set)  # those at which nothing has happened yet
    callers: dict[Root, None] = field(default_factory=dict)  # the caller's storage classes met so far
    scalars: dict[int, tuple[TensorProxy, Operand]] = field(default_factory=dict)  # number -> the tensor `item` read
    fresh: int = 0

    def bind_parameter(self, position: int, name: str, proxy: Proxy | None) -> None:
        """A parameter holds the caller's value at its position."""
        self.define(self.values, name, self.numbers.of(("parameter", position)), given_roots(name, proxy))

    def define(self, scope: dict[str, Value], name: str, number: int, roots: tuple[Root, ...]) -> None:
        """`name` is a new object with this number."""
        self.fresh += 1
        self.seen.add(number)
        self.callers.update(dict.fromkeys(root for root in roots if is_callers_memory(root)))
        scope[name] = Value(number, roots, self.fresh, len(self.steps))

    def operand(self, scope: dict[str, Value], name: str) -> Operand:
        """The value as it is at this moment; an undefined name is a value of its own."""
        value = scope.get(name)
        if value is None:
            return Operand(name, self.numbers.of(("undefined", name)), ())
        if not self.versions:
            return Operand(name, value.number, ())
        versions = tuple(self.versions.get(root) for root in value.roots)
        return Operand(name, value.number, versions if any(v is not None for v in versions) else ())

    def execute(self, op: Op, scope: dict[str, Value], region: Region | None) -> None:
        """The transfer function of one op that is neither region nor RETURN."""
        if op.kind is OpKind.COMPUTE:
            self._compute(op, scope, region)
        elif op.kind is OpKind.UNPACK:
            self._unpack(op, scope)

    def _compute(self, op: Op, scope: dict[str, Value], region: Region | None) -> None:
        facts = self.facts(op)
        # Values are read before identities bind new names to them: an identity's own result is no argument.
        aliases = {new: scope[old] for new, old in facts.identities.items() if old in scope}
        if not (aliases and len(aliases) == len(op.outputs) and not (facts.writes or facts.draws or facts.opaque)):
            self._step(op, facts, scope, region)
        for new, value in aliases.items():
            scope[new] = Value(value.number, value.roots, value.identity, len(self.steps))

    def _step(self, op: Op, facts: Facts, scope: dict[str, Value], region: Region | None) -> None:
        operands: list[Operand] = []
        literals = self.encode((op.bsym.args, op.bsym.kwargs), scope, operands)
        if self.scalars:
            operands = [self._seen_by(op, operand) for operand in operands]
        chains = self._chains(op, facts)
        drawn = self._positions(chains)
        world = (self._world(), *drawn) if facts.opaque else ()
        symbol = self.symbol(op)
        inputs = tuple((operand.number, operand.versions) for operand in operands)
        number = self.numbers.of((symbol, literals, inputs, drawn, world))
        written = self._written(facts, operands, scope)
        step = Step(op, region, symbol, tuple(operands), literals, drawn, world, number, written)
        self.steps.append(step)
        self._results(op, facts, scope, number)
        if (read := scalar_source(op.bsym)) is not None and op.outputs[0] in scope:
            self.scalars[scope[op.outputs[0]].number] = read, operands[0]
        if drawn:
            self.makers.update((scope[name].number, step) for name in op.outputs if name in scope)
        for root in written:
            version = self.versions[root] = self.numbers.of(("write", self.versions.get(root), number))
            self.seen.add(version)
            self.writers[version] = step
        if facts.opaque:
            self.draws.clear()
            self.world = number
            self._world()
        else:
            for chain in chains:
                self.draws[chain] = self.numbers.of(("draw", self._draw(chain), number))
        self._positions(chains)

    def _seen_by(self, op: Op, operand: Operand) -> Operand:
        """The operand, or the 0-d tensor that a number was read from, where the op cannot tell them apart."""
        tensor, read = self.scalars.get(operand.number, (None, operand))
        if tensor is None or not is_scalar_like_tensor(op.bsym, operand.name, tensor):
            return operand
        return Operand(operand.name, read.number, read.versions)

    def _draw(self, chain: str) -> int | None:
        """The last event of one generator: a draw since the last opaque op, or that op."""
        return self.draws.get(chain, self.world)

    def _positions(self, chains: tuple[str, ...]) -> tuple[int, ...]:
        """Where the generators stand now."""
        return tuple(self._reach(("drawn", chain), self._draw(chain)) for chain in chains)

    def _world(self) -> int:
        """Where the chain of opaque ops stands now."""
        return self._reach("world", self.world)

    def _reach(self, chain: Hashable, event: int | None) -> int:
        position = self.numbers.of((chain, event))
        self.positions.add(position)
        if event is None:
            self.origins.add(position)
        return position

    def _chains(self, op: Op, facts: Facts) -> tuple[str, ...]:
        """The generators the op draws from: its results' device, or all that were drawn from so far."""
        if facts.opaque:
            return tuple(sorted(self.draws))
        if not facts.draws:
            return ()
        devices = {device_of(p) for p in op.bsym.flat_proxy_outs if isinstance(p, TensorProxy)}
        return tuple(sorted(devices)) or ("cpu",)

    def _written(self, facts: Facts, operands: list[Operand], scope: dict[str, Value]) -> tuple[Root, ...]:
        names: Iterable[str] = facts.writes
        written: dict[Root, None] = {}
        if facts.opaque:
            names = [*names, *(operand.name for operand in operands)]
            written.update(self.callers)
        for name in names:
            if name in scope:
                written.update(dict.fromkeys(scope[name].roots))
        return tuple(written)

    def _results(self, op: Op, facts: Facts, scope: dict[str, Value], number: int) -> None:
        for position, proxy in enumerate(op.bsym.flat_proxy_outs):
            name = proxy.name
            if name in facts.identities or name in op.reads:
                continue
            roots: tuple[Root, ...] = ()
            if isinstance(proxy, (TensorProxy, CollectionProxy)):
                shared = facts.views.get(name, ())
                roots = tuple(dict.fromkeys(r for other in shared if other in scope for r in scope[other].roots))
                if facts.worst_case:
                    roots = tuple(dict.fromkeys((*roots, *given_roots(name, proxy))))
                roots = roots or (self.fresh,)
            self.define(scope, name, self.numbers.of(("result", number, position)), roots)

    def _unpack(self, op: Op, scope: dict[str, Value]) -> None:
        source: list[Operand] = []
        literals = self.encode(op.bsym.args, scope, source)
        inputs = (literals, *((operand.number, operand.versions) for operand in source))
        for position, proxy in enumerate(op.bsym.flat_proxy_outs):
            number = self.numbers.of(("unpacked", inputs, position))
            self.define(scope, proxy.name, number, given_roots(proxy.name, proxy))

    def leave(self, op: Op, scope: dict[str, Value]) -> None:
        """RETURN: records what is handed out, in the state the memory is in now."""
        operands: list[Operand] = []
        self.structure = self.encode(op.bsym.args, scope, operands)
        self.returned = tuple(
            Leaf(o.name, o.number, o.versions, scope[o.name].roots, scope[o.name].identity)
            if o.name in scope
            else Leaf(o.name, o.number, o.versions, (), o.name)
            for o in operands
        )

    def symbol(self, op: Op) -> Hashable:
        """What stands for the called symbol."""
        return symbol_key(op)

    def encode(self, tree: Any, scope: dict[str, Value], operands: list[Operand]) -> Hashable:
        """The literals of a nest of arguments, proxies replaced by a mark and appended to `operands`."""
        if isinstance(tree, Proxy):
            operands.append(self.operand(scope, tree.name))
            return "?"
        kind = type(tree)
        if kind is tuple or kind is list:
            return (kind.__name__, *[self.encode(item, scope, operands) for item in tree])
        if kind is dict:
            return ("dict", *[(key, self.encode(item, scope, operands)) for key, item in tree.items()])
        if isinstance(tree, (tuple, list)):
            return ("tuple", *[self.encode(item, scope, operands) for item in tree])
        if kind is slice:
            return ("slice", *[self.encode(item, scope, operands) for item in (tree.start, tree.stop, tree.step)])
        return (kind.__name__, tree) if kind is int or kind is bool or tree is None else literal_key(tree)


def run(
    view: TraceView, region_of: Callable[[Op], Region | None], facts: Callable[[Op], Facts], numbers: Numbers
) -> State:
    """Executes a trace symbolically, regions inlined, up to its RETURN."""
    state = State(numbers, facts)
    for position, name in enumerate(view.parameters):
        state.bind_parameter(position, name, view.values.get(name))
    for op in view.ops:
        if op.kind is OpKind.RETURN:
            state.leave(op, state.values)
            break
        region = region_of(op)
        if region is None:
            state.execute(op, state.values, None)
        else:
            _run_region(state, region, region_of, state.values)
    return state


def _run_region(
    state: State, region: Region, region_of: Callable[[Op], Region | None], outer: dict[str, Value]
) -> None:
    """Executes a region's body on the values of its arguments and binds its results."""
    inner: dict[str, Value] = {}
    for parameter, argument in zip(region.parameters, region.arguments, strict=False):
        if argument in outer:
            inner[parameter] = outer[argument]
        else:
            state.define(inner, parameter, state.operand(outer, argument).number, ())
    for op in region.ops:
        if op.kind is OpKind.RETURN:
            break
        nested = region_of(op)
        if nested is None:
            state.execute(op, inner, region)
        else:
            _run_region(state, nested, region_of, inner)
    for output, result in zip(region.outputs, region.results, strict=False):
        if result in inner:
            outer[output] = inner[result]
        else:
            state.define(outer, output, state.operand(inner, result).number, ())
