"""Gives every step of a program its operands: from choices modulo the pool to straight-line statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cgverify.fuzzing.operations import OPERATIONS
from cgverify.fuzzing.pool import Pool, Ref, Statement
from cgverify.fuzzing.program import Input, Program, Step, check_program
from cgverify.fuzzing.signatures import Operation
from cgverify.fuzzing.values import NumberType, TensorType, ValueType

HOST_WORK = ("torch.tensor",)
"""Functions that copy from the host."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A program whose every operand is known.

    Attributes:
        inputs: as in the program.
        types: of all values, inputs first.
        statements: in order.
        outputs: numbers of the values returned, None for None.
        exact: whether every intermediate is an exactly representable integer, so that any correct kernel gives the
            same bits.
    """

    inputs: tuple[Input, ...]
    types: tuple[ValueType, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[int | None, ...]
    exact: bool

    @property
    def is_random(self) -> bool:
        """Whether the program draws random numbers."""
        return any(statement.random for statement in self.statements)

    @property
    def needs_grad(self) -> bool:
        """Whether some output is differentiable."""
        kinds = [self.types[n] for n in self.outputs if n is not None]
        return any(isinstance(kind, TensorType) and kind.needs_grad for kind in kinds)

    @property
    def writes_inputs(self) -> bool:
        """Whether it may write the memory of an input in place."""
        inputs = {_memory(self.types, number) for number in range(len(self.inputs))}
        return any(s.writes is not None and _memory(self.types, s.writes) in inputs for s in self.statements)

    @property
    def writes(self) -> bool:
        """Whether it writes anything in place."""
        return any(s.writes is not None for s in self.statements)

    @property
    def may_be_captured(self) -> bool:
        """Whether a caller may capture it: it needs nothing of the host but launches."""
        on_host = any(isinstance(kind, NumberType) or kind.device == "cpu" for kind in self.types)
        return not on_host and not any(s.function in HOST_WORK or _has_mask(self, s) for s in self.statements)

    @property
    def is_module(self) -> bool:
        """Whether it is rendered as a module: some input is a parameter or a buffer."""
        return any(entry.role != "arg" for entry in self.inputs)


def resolve_program(program: Program) -> Resolved:
    """Resolve `program`; steps without suitable operands are left out, as are random draws that nothing uses.

    The draws go because Thunder, unlike eager PyTorch, removes them, which moves its generator differently.

    Raises:
        ProgramError: an operation, a parameter or an alias does not exist.
    """
    check_program(program)
    pool = Pool()
    exact = add_inputs(pool, program.inputs)
    for step in program.steps:
        resolve_step(pool, step)
    # the inputs are asked again: a step may have written them in place
    exact = exact and all(map(_is_exact, pool.types))
    outputs = tuple(None if n is None else n % len(pool.types) for n in program.outputs) if pool.types else ()
    visible = {n for n in outputs if n is not None} | set(range(len(program.inputs)))
    statements = _without_dead_draws(pool.statements, pool.types, visible)
    return Resolved(program.inputs, tuple(pool.types), statements, outputs, exact)


def add_inputs(pool: Pool, inputs: tuple[Input, ...]) -> bool:
    """Add the inputs as values; say whether all of them hold small integers."""
    trains = any(entry.trains for entry in inputs)
    for entry in inputs:
        base = None if entry.alias_of is None else pool.tensor(Ref(entry.alias_of))
        kind = TensorType(
            entry.shape,
            entry.dtype,
            entry.device,
            pool.new_storage() if base is None else base.storage,
            writable=entry.layout != "expanded" and (base is None or base.writable),
            needs_grad=entry.trains,
            bound=4.0
            if entry.values == "integers" or entry.dtype in ("i64", "i32")
            else 1.0
            if entry.dtype == "bool"
            else None,
        )
        # A module's parameter that needs no gradient may not be written either while other inputs are trained.
        pool.add(replace(kind, writable=False) if trains and entry.role == "parameter" else kind)
    return all(_is_exact(kind) for kind in pool.types)


def _is_exact(kind: ValueType) -> bool:
    return kind.bound is not None or (isinstance(kind, TensorType) and not kind.is_float)


def resolve_step(pool: Pool, step: Step) -> tuple[Ref, ...] | None:
    """Add the statements of a step; return its operands, or None if it has to be left out."""
    operation = OPERATIONS[step.op]
    chosen: tuple[Ref, ...] = ()
    for position in range(len(operation.operands)):
        candidates = find_candidates(pool, operation, position, chosen)
        if not candidates:
            return None
        raw = step.args[position] if position < len(step.args) else 0
        chosen = (*chosen, candidates[raw % len(candidates)])
    params = {name: step.params.get(name, parameter.default) for name, parameter in operation.parameters.items()}
    operation.build(pool, chosen, params)
    return chosen


def find_candidates(pool: Pool, operation: Operation, position: int, chosen: tuple[Ref, ...]) -> list[Ref]:
    """Return the values that an operand may be, given the operands chosen before it, in order."""
    accepts = operation.operands[position]
    return [Ref(number) for number in range(len(pool.types)) if accepts(pool, Ref(number), chosen)]


def _without_dead_draws(
    statements: list[Statement], types: list[ValueType], visible: set[int]
) -> tuple[Statement, ...]:
    """Drop random draws that reach no visible value, and what is computed from them alone.

    A value is visible if it is an output or an input; a write is alive if its storage class is.
    """
    live = {_memory(types, number) for number in visible}
    dropped: set[int] = set()
    for statement in reversed(statements):
        touched = statement.results if statement.writes is None else (*statement.results, statement.writes)
        if live.intersection(_memory(types, number) for number in touched):
            live.update(_memory(types, number) for number in statement.reads())
        elif statement.random:
            dropped.update(statement.results)
    kept = []
    for statement in statements:
        if dropped.intersection((*statement.results, *statement.reads())):
            dropped.update(statement.results)
        else:
            kept.append(statement)
    return tuple(kept)


def _has_mask(resolved: Resolved, statement: Statement) -> bool:
    """Whether a statement indexes by a mask, of which the host has to count the places."""
    if statement.function != "setitem" or not isinstance(statement.args[1], Ref):
        return False
    kind = resolved.types[statement.args[1].value]
    return isinstance(kind, TensorType) and kind.dtype == "bool"


def _memory(types: Sequence[ValueType], number: int) -> tuple[str, int]:
    """Return what holds a value: the storage class of a tensor, the number itself."""
    kind = types[number]
    return ("storage", kind.storage) if isinstance(kind, TensorType) else ("number", number)
