"""What a trace hands out, by role: results, gradients and the state it leaves, its backward trace run after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cgverify.ir import Op, OpKind, TraceView
from cgverify.verifier.lowered import Handed, LoweredState
from cgverify.verifier.semantics import (
    Facts,
    Proxy,
    compute_facts,
    flat_leaves,
    is_cotangent,
)
from cgverify.verifier.staleness import find_overwritten
from cgverify.verifier.values import Numbers, Step, Value


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
