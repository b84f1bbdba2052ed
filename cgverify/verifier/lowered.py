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

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cgverify.ir import Op, OpKind, TraceView, view_trace
from cgverify.verifier.semantics import (
    Facts,
    Proxy,
    TraceCtx,
    callable_of,
    flat_leaves,
    is_composite,
    is_cotangent,
    leaf_literal,
    leaf_symbol,
)
from cgverify.verifier.state import State
from cgverify.verifier.values import Operand, Step, Value

if TYPE_CHECKING:
    from cgverify.verifier.region import Region


Key = Hashable


@dataclass(frozen=True, slots=True)
class Handed:
    """One value of RETURN: what it prints as, and a key that is equal for equal values in equal memory."""

    name: str
    key: Key


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
