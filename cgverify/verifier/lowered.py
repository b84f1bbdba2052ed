"""The abstract state of a trace executed leaf by leaf: what a trace computes, whatever stage of the pipeline it is at.

Transfer: an op with a decomposition is executed by its decomposition, a region or fusion by its body or subsymbols, and
a leaf by the transfer function of `state.py`, under the name and constants that all stages share. A joint trace asks
for the gradient of result `i` by `get_grad`; a backward trace takes it out of the list of cotangents: both are the
value ("cotangent", i). A backward trace is executed after its forward trace, in the same state, on what that one saved.

Two laws are built in, since executors spell these prims as chains of others: a broadcast of a broadcast is one
broadcast, and one that changes nothing is its argument; a clone holds the value that was cloned.

Premise: an op does what its decomposition says. Not covered: whether an executor's kernel does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cgverify.ir import Op, OpKind, TraceView, view_trace
from cgverify.verifier.semantics import (
    Facts,
    Proxy,
    TraceCtx,
    callable_of,
    compute_facts,
    flat_leaves,
    is_composite,
    is_cotangent,
    leaf_literal,
    leaf_symbol,
)
from cgverify.verifier.staleness import find_overwritten
from cgverify.verifier.state import Numbers, Operand, State, Step, Value

if TYPE_CHECKING:
    from cgverify.verifier.subject import Region

Key = Hashable


@dataclass(frozen=True, slots=True)
class Handed:
    """One value of RETURN: what it prints as, and a key that is equal for equal values in equal memory."""

    name: str
    key: Key


@dataclass(frozen=True)
class Outcome:
    """What a trace hands out, by role, and the state it leaves behind.

    Attributes:
        view: the trace.
        state: after its last op; for a forward trace with its backward trace, after both.
        results: what the user's function returns; empty for a backward trace.
        gradients: of the arguments; None if the trace computes none.
        stale: values that the gradients read after they were overwritten -> the write.
    """

    view: TraceView
    state: LoweredState
    results: tuple[Handed, ...]
    gradients: tuple[Handed, ...] | None
    stale: dict[str, Step] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """A value that is another one, repeated.

    Attributes:
        base: what is repeated, as it was seen.
        shape: the result's.
        dims: where each dimension of the base went.
    """

    base: Operand
    shape: tuple[int, ...]
    dims: tuple[int, ...]


@dataclass
class LoweredState(State):
    """The abstract state, leaf by leaf."""

    standing: dict[int, Op] = field(default_factory=dict)  # id of a leaf op -> the op of the trace that it stands in
    cotangents: dict[int, int] = field(default_factory=dict)  # id of a `get_grad` -> the position of the result
    broadcasts: dict[int, Broadcast] = field(default_factory=dict)  # number of a value -> how it was broadcast
    top: Op | None = None

    def symbol(self, op: Op) -> Hashable:
        """The leaf's name at every stage."""
        return leaf_symbol(op.bsym)

    def encode(self, tree: Any, scope: dict[str, Value], operands: list[Operand]) -> Hashable:
        """As in `State`, spelled the same at every stage."""
        if isinstance(tree, Proxy):
            operands.append(self.operand(scope, tree.name))
            return "?"
        if isinstance(tree, (tuple, list)):
            return ("tuple", *[self.encode(item, scope, operands) for item in tree])
        if isinstance(tree, dict):
            return ("dict", *[(key, self.encode(item, scope, operands)) for key, item in tree.items()])
        if isinstance(tree, slice):
            return ("slice", *[self.encode(item, scope, operands) for item in (tree.start, tree.stop, tree.step)])
        return leaf_literal(tree)

    def follow(self, op: Op, scope: dict[str, Value]) -> None:
        """Executes an op of the trace, down to its leaves."""
        self.top = op
        self._descend(op, scope)

    def _descend(self, op: Op, scope: dict[str, Value]) -> None:
        if op.kind is OpKind.UNPACK:
            self.execute(op, scope, None)
        if op.kind is not OpKind.COMPUTE:
            return
        if is_cotangent(op.bsym):
            self._bind_cotangent(op, scope)
            return
        body = getattr(callable_of(op.bsym), "body", None)
        if isinstance(body, TraceCtx):
            self._enter(view_trace(body), op, scope)
        elif is_composite(op.bsym):
            self._open(op, scope)
        else:
            if self.top is not None:
                self.standing[id(op)] = self.top
            self.execute(op, scope, None)

    def _open(self, op: Op, scope: dict[str, Value]) -> None:
        """Executes a decomposition, whose names are those of the trace, in a scope of its own."""
        inner = {name: scope[name] for name in op.reads if name in scope}
        for child in op.children:
            self._descend(child, inner)
        scope.update({name: inner[name] for name in op.outputs if name in inner})

    def _enter(self, body: TraceView, op: Op, scope: dict[str, Value]) -> None:
        """Executes a region's body on the values of its arguments."""
        arguments = [proxy.name for proxy in op.bsym.flat_proxy_args]
        inner = {p: scope[a] for p, a in zip(body.parameters, arguments, strict=False) if a in scope}
        for child in body.ops:
            self._descend(child, inner)
        outputs = [proxy.name for proxy in op.bsym.flat_proxy_outs]
        scope.update({o: inner[r] for o, r in zip(outputs, body.returned, strict=False) if r in inner})

    def _bind_cotangent(self, op: Op, scope: dict[str, Value]) -> None:
        number = self.numbers.of(("cotangent", self.cotangents.get(id(op), -1)))
        for name in op.outputs:
            self.define(scope, name, number, ())

    def _step(self, op: Op, facts: Facts, scope: dict[str, Value], region: Region | None) -> None:
        symbol = self.symbol(op)
        if symbol == "clone" and self._clone(op, scope):
            return
        if symbol == "broadcast_in_dim" and self._broadcast(op, scope):
            return
        super()._step(op, facts, scope, region)

    def _clone(self, op: Op, scope: dict[str, Value]) -> bool:
        """The same value in fresh memory, unless the memory cloned was written before."""
        operand = self.operand(scope, op.reads[0]) if len(op.reads) == len(op.outputs) == 1 else None
        if operand is None or operand.versions:
            return False
        self.define(scope, op.outputs[0], operand.number, (self.fresh,))
        return True

    def _broadcast(self, op: Op, scope: dict[str, Value]) -> bool:
        """One broadcast instead of a chain, none instead of one that changes nothing."""
        argument = op.bsym.args[0]
        if len(op.bsym.args) != 3 or len(op.outputs) != 1 or argument.name not in scope:
            return False
        shape, dims = (tuple(part) for part in op.bsym.args[1:])
        if any(isinstance(entry, Proxy) for entry in (*shape, *dims)):
            return False
        value, base = scope[argument.name], self.operand(scope, argument.name)
        if dims == tuple(range(len(shape))) and shape == tuple(argument.shape):
            self.define(scope, op.outputs[0], value.number, value.roots)
            return True
        inner = self.broadcasts.get(value.number)
        if inner is not None and inner.base.versions == base.versions:
            base, dims = inner.base, tuple(dims[dim] for dim in inner.dims)
        literals = (shape, dims)
        number = self.numbers.of(("broadcast_in_dim", literals, base.number, base.versions))
        self.steps.append(Step(op, None, "broadcast_in_dim", (base,), literals, (), (), number, ()))
        result = self.numbers.of(("result", number, 0))
        self.broadcasts[result] = Broadcast(base, shape, dims)
        self.define(scope, op.outputs[0], result, value.roots)
        return True

    def behind(self, keys: Iterable[Key]) -> set[int]:
        """Numbers of the leaves that these handed-out values depend on."""
        makers = {self.numbers.of(("result", s.number, i)): s for s in self.steps for i in range(len(s.op.outputs))}
        waiting = [n for key in keys if isinstance(key, tuple) and key[0] == "value" for n in (key[1], *key[2])]
        found: set[int] = set()
        while waiting:
            number = waiting.pop()
            step = makers.get(number) or self.writers.get(number)
            if step is not None and step.number not in found:
                found.add(step.number)
                waiting += [n for o in step.operands for n in (o.number, *o.versions) if n is not None]
        return found

    def hand_out(self, tree: object) -> tuple[Handed, ...]:
        """The leaves of what is returned, in the state their memory is in now."""
        return tuple(self._handed(leaf) for leaf in flat_leaves(tree))

    def _handed(self, leaf: object) -> Handed:
        if not isinstance(leaf, Proxy):
            return Handed(repr(leaf), ("constant", leaf_literal(leaf)))
        operand = self.operand(self.values, leaf.name)
        return Handed(leaf.name, ("value", operand.number, operand.versions))


def run_lowered(view: TraceView, numbers: Numbers, backward: TraceView | None = None) -> Outcome:
    """Executes a trace, and its backward trace after it, leaf by leaf."""
    known: dict[int, Facts] = {}

    def facts(op: Op) -> Facts:
        found = known.get(id(op.bsym))
        if found is None:
            found = known[id(op.bsym)] = compute_facts(op.bsym)
        return found

    state = LoweredState(numbers, facts)
    for position, name in enumerate(view.parameters):
        state.bind_parameter(position, name, view.values.get(name))
    state.cotangents = _number_cotangents(view)
    stale = _follow_all(state, view)
    arguments = () if view.return_op is None else view.return_op.bsym.args
    wrapped = arguments[0] if arguments and _is_wrapped(arguments[0]) else None
    if wrapped is None:
        return Outcome(view, state, state.hand_out(arguments), None)
    joint = "fw_flat_out" in wrapped
    results = state.hand_out(wrapped["fw_flat_out" if joint else "output"])
    if joint:
        return Outcome(view, state, results, state.hand_out(wrapped["output"]), stale)
    if backward is None:
        return Outcome(view, state, results, None)
    saved = [leaf for leaf in flat_leaves(arguments[1:]) if isinstance(leaf, Proxy) and leaf.name in state.values]
    stale = find_overwritten(state, [(proxy.name, state.values[proxy.name]) for proxy in saved])
    return Outcome(view, state, results, _run_backward(state, backward, arguments[1:]), stale)


def _is_wrapped(returned: object) -> bool:
    """Whether Thunder has wrapped what is returned, to keep track of the arguments."""
    return isinstance(returned, dict) and "flat_args" in returned


def _follow_all(state: LoweredState, view: TraceView) -> dict[str, Step]:
    """Executes a trace; returns what the gradients of a joint trace read after it was overwritten."""
    read: dict[str, Value] = {}
    gradients = False
    for op in view.ops:
        if op.kind is OpKind.RETURN:
            break
        gradients = gradients or id(op) in state.cotangents
        if gradients and op.kind is OpKind.COMPUTE:
            read.update({name: state.values[name] for name in op.reads if name in state.values})
        state.follow(op, state.values)
    return find_overwritten(state, read.items()) if read else {}


def _number_cotangents(view: TraceView) -> dict[int, int]:
    """Which result each `get_grad` of a joint trace asks for: the last one of a value asks for its first place."""
    op = view.return_op
    if op is None or not op.bsym.args or not _is_wrapped(op.bsym.args[0]):
        return {}
    places: dict[str, list[int]] = {}
    for position, leaf in enumerate(op.bsym.args[0].get("fw_flat_out", ())):
        if isinstance(leaf, Proxy):
            places.setdefault(leaf.name, []).append(position)
    found = {}
    for other in reversed(view.ops):
        if other.kind is OpKind.COMPUTE and is_cotangent(other.bsym):
            waiting = places.get(other.reads[0], []) if other.reads else []
            found[id(other)] = waiting.pop(0) if waiting else -1
    return found


def _run_backward(state: LoweredState, view: TraceView, saved: Sequence[Any]) -> tuple[Handed, ...]:
    """Executes a backward trace in the state that its forward trace left."""
    forward = state.values
    state.values = {}
    groups = list(saved[0]) if saved else []
    given: dict[str, list[Value | None]] = {}  # collection -> its elements
    unpacks = [op for op in view.ops if op.kind is OpKind.UNPACK and op.reads]
    lists, cotangents = (*view.parameters, "", "")[:2]
    for op in unpacks:
        entries = op.bsym.output if isinstance(op.bsym.output, (list, tuple)) else [op.bsym.output]
        for position, proxy in enumerate(entries):
            if not isinstance(proxy, Proxy):
                continue
            if op.reads[0] == lists:
                group = groups[position] if position < len(groups) else ()
                given[proxy.name] = [forward.get(entry.name) if isinstance(entry, Proxy) else None for entry in group]
                state.define(state.values, proxy.name, state.numbers.of(("saved", position)), ())
            elif op.reads[0] == cotangents:
                state.define(state.values, proxy.name, state.numbers.of(("cotangent", position)), ())
            else:
                elements = given.get(op.reads[0], [])
                element = elements[position] if position < len(elements) else None
                if element is not None:
                    state.values[proxy.name] = element
    for op in view.ops:
        if op.kind is OpKind.COMPUTE:
            state.follow(op, state.values)
    return () if view.return_op is None else state.hand_out(view.return_op.bsym.args)


def place_of(outcome: Outcome, step: Step) -> Op:
    """The op of the trace that a leaf stands in."""
    return outcome.state.standing.get(id(step.op), step.op)
