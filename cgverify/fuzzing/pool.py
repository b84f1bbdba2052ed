"""The values of a program while its steps are resolved, and the statements that make them.

An operation adds statements through :meth:`Pool.emit`, which works out what follows for every operation alike: the
device, whether autograd tracks the result, and how far a rounding error may reach. A statement is one line of the
program: source text, an eager call and a bound symbol of a trace are all made from it, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from cgverify.fuzzing.values import Device, NumberType, Shape, TensorType, ValueType, exact


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the program, by number: inputs first, then results in order."""

    value: int


@dataclass(frozen=True, slots=True)
class Dtype:
    """A dtype as an argument."""

    name: str


@dataclass(frozen=True, slots=True)
class On:
    """A device as an argument."""

    name: Device


@dataclass(frozen=True, slots=True)
class Symbol:
    """The executor symbol that a statement becomes in a trace, where its arguments differ from the Python call's."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of the program.

    Attributes:
        function: `torch.add`, `Tensor.item` (a method of the first argument), `getitem`, `setitem` or `operator.mul`.
        args: refs, literals, :class:`Dtype`, :class:`On`, slices, and tuples of these.
        kwargs: the same, by name.
        results: numbers of the values it makes; several only where the function returns a sequence.
        symbol: what it becomes in a trace; for a write, what computes the new content.
        writes: number of the value whose memory it writes; with results, besides computing these.
        random: whether it draws random numbers.
    """

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: tuple[int, ...]
    symbol: Symbol
    writes: int | None = None
    random: bool = False

    def reads(self) -> Iterator[int]:
        """Yield the numbers of the values among the arguments, in order, with repeats."""
        yield from refs_in((self.args, tuple(self.kwargs.values())))


def refs_in(tree: Any) -> Iterator[int]:
    """Yield the numbers of all refs in nested tuples, lists and slices, in order."""
    if isinstance(tree, Ref):
        yield tree.value
    elif isinstance(tree, tuple | list):
        for leaf in tree:
            yield from refs_in(leaf)


class Pool:
    """The values made so far, by number, and the statements that made them."""

    def __init__(self) -> None:
        self.types: list[ValueType] = []
        self.statements: list[Statement] = []
        # Storage classes that autograd has seen: as in eager PyTorch, a later write to one would make backward fail.
        self.grad_storages: set[int] = set()
        self._storages = 0

    def new_storage(self) -> int:
        """Return the number of a storage class of its own."""
        self._storages += 1
        return self._storages

    def add(self, value: ValueType) -> Ref:
        """Add a value that no statement makes: an input."""
        self.types.append(value)
        return Ref(len(self.types) - 1)

    def tensor(self, ref: Ref) -> TensorType:
        """Return the type of a value known to be a tensor."""
        found = self.types[ref.value]
        if not isinstance(found, TensorType):
            raise TypeError(f"value {ref.value} is a number, and an operation's entry took it for a tensor")
        return found

    def is_tensor(self, ref: Ref) -> bool:
        """Whether the value is a tensor."""
        return isinstance(self.types[ref.value], TensorType)

    def emit(
        self,
        function: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        *,
        shapes: tuple[Shape, ...],
        dtype: str | tuple[str, ...],
        symbol: str | Symbol | None = None,
        bound: float | None = None,
        discrete: bool = False,
        view_of: Ref | None = None,
        writable: bool = True,
        device: Device | None = None,
        random: bool = False,
        tracked: bool = True,
        writes: Ref | None = None,
    ) -> tuple[Ref, ...]:
        """Add a statement that makes tensors, one for each shape.

        Args:
            function: see :class:`Statement`; the trace's symbol has its last name unless `symbol` says otherwise.
            args: positional arguments.
            kwargs: named arguments.
            shapes: shapes of the results.
            dtype: their dtype, or one for each.
            symbol: name of the executor symbol, or the symbol with arguments of its own.
            bound: magnitude of integer-valued results (see TensorType); dropped where the dtype cannot hold it.
            discrete: whether a rounding error in an argument may change a result by more than its size.
            view_of: the argument whose memory the results share, or may share.
            writable: False where elements of a result overlap.
            device: where the results live; the device of the arguments unless given.
            random: whether random numbers are drawn.
            tracked: False where autograd stops (`detach`).
            writes: a tensor that the call writes besides (running statistics).
        """
        operands = [self.types[n] for n in refs_in((args, tuple((kwargs or {}).values())))]
        tensors = [v for v in operands if isinstance(v, TensorType)]
        places = [device] if device else [v.device for v in (*_ranked(tensors), *tensors)]
        place = places[0] if places else "cuda"
        fragile = any(v.fragile or (discrete and v.bound is None and not _is_exact(v)) for v in operands)
        drawn = random or any(v.drawn for v in operands)
        results = []
        for index, shape in enumerate(shapes):
            name = dtype if isinstance(dtype, str) else dtype[index]
            made = TensorType(
                shape, name, place, self.new_storage(), writable, False, exact(bound, name), fragile, drawn
            )
            if tracked and made.is_float and any(v.needs_grad for v in tensors):
                made = replace(made, needs_grad=True)
            if view_of is not None:
                base = self.tensor(view_of)
                made = replace(made, storage=base.storage, writable=writable and base.writable)
            results.append(self.add(made))
            if made.needs_grad:
                self.grad_storages |= {made.storage, *(v.storage for v in tensors)}
        if writes is not None:
            self._change_content(writes, None, fragile, drawn)
        written = None if writes is None else writes.value
        self._append(function, args, kwargs, tuple(r.value for r in results), symbol, written, random)
        return tuple(results)

    def emit_number(self, function: str, args: tuple[Any, ...], kind: NumberType, symbol: str | None = None) -> Ref:
        """Add a statement that makes a Python number."""
        result = self.add(kind)
        self._append(function, args, None, (result.value,), symbol, None, False)
        return result

    def emit_write(
        self,
        function: str,
        args: tuple[Any, ...],
        *,
        symbol: str | Symbol,
        bound: float | None = None,
        discrete: bool = False,
    ) -> None:
        """Add a statement that writes its first argument in place; `symbol` computes the new content in a trace."""
        target = args[0]
        operands = [self.types[n] for n in refs_in(args)]
        fragile = any(v.fragile or (discrete and v.bound is None and not _is_exact(v)) for v in operands)
        self._change_content(target, bound, fragile, any(v.drawn for v in operands))
        self._append(function, args, None, (), symbol, target.value, False)

    def _change_content(self, target: Ref, bound: float | None, fragile: bool, drawn: bool) -> None:
        """Note that the memory of `target` holds, in part, other values now."""
        storage = self.tensor(target).storage
        for number, value in enumerate(self.types):
            if isinstance(value, TensorType) and value.storage == storage:
                kept = None if bound is None or value.bound is None else max(bound, value.bound)
                self.types[number] = replace(
                    value, bound=exact(kept, value.dtype), fragile=value.fragile or fragile, drawn=value.drawn or drawn
                )

    def _append(
        self,
        function: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        results: tuple[int, ...],
        symbol: str | Symbol | None,
        writes: int | None,
        random: bool,
    ) -> None:
        if not isinstance(symbol, Symbol):
            symbol = Symbol(symbol or function.rpartition(".")[2], args, kwargs or {})
        self.statements.append(Statement(function, args, kwargs or {}, results, symbol, writes, random))


def _ranked(tensors: list[TensorType]) -> list[TensorType]:
    return [value for value in tensors if value.rank]


def _is_exact(value: ValueType) -> bool:
    """Integers and booleans carry no rounding error of their own."""
    return not value.is_float if isinstance(value, TensorType) else value.kind == "int"
