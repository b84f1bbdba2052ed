"""What the abstract state is made of: values, the memory behind them, executed ops, and when two of them are equal."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cgverify.ir import Op
from cgverify.verifier.semantics import (
    CollectionProxy,
    Proxy,
    TensorProxy,
    callable_of,
    device_of,
)

if TYPE_CHECKING:
    from cgverify.verifier.region import Region


Root = Hashable  # a storage class: "@cuda:0" for the caller's memory, an int for a fresh allocation


class Numbers:
    """Gives equal keys equal small integers; shared by the two programs that are compared."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        """The number of a key, new or known."""
        return self._known.setdefault(key, len(self._known))


@dataclass(frozen=True, slots=True)
class Value:
    """What a name holds.

    Attributes:
        number: equal for equal computations.
        roots: the storage classes its memory may belong to.
        identity: the object it is: equal for the aliases that `update_aliases` and `copy_` return.
        born: how many steps had run when its name was bound.
    """

    number: int
    roots: tuple[Root, ...]
    identity: Hashable
    born: int


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument as an op saw it: its name, its number, and the versions of its storage classes."""

    name: str
    number: int
    versions: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One executed op.

    Attributes:
        op: the op.
        region: the region it stands in, None for the trace itself.
        symbol: what is called.
        operands: its tensor, number and collection arguments, in order.
        literals: everything else among its arguments, with the shape of the nest.
        drawn: the positions on the chains of random draws it takes; empty if it draws nothing.
        world: the positions of all chains, if it is opaque; else empty.
        number: equal for equal executions.
        writes: the storage classes it writes.
    """

    op: Op
    region: Region | None
    symbol: Hashable
    operands: tuple[Operand, ...]
    literals: Hashable
    drawn: tuple[int, ...]
    world: tuple[int, ...]
    number: int
    writes: tuple[Root, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value handed out by RETURN, in the state its memory is in then."""

    name: str
    number: int
    versions: tuple[int | None, ...]
    roots: tuple[Root, ...]
    identity: Hashable

    @property
    def key(self) -> Hashable:
        """Equal for equal values in equal memory."""
        return (self.number, self.versions)


def literal_key(value: Any) -> Hashable:
    """A key equal for literals that print alike: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, (float, complex)):
        return (type(value).__name__, repr(value))
    try:
        hash(value)
    except TypeError:
        return (type(value).__name__, repr(value))
    return (type(value).__name__, value)


def symbol_key(op: Op) -> Hashable:
    """What is called: the symbol, how it prints, and the very Python object where the op brings its own.

    What runs is what a symbol prints: two symbols of one name and id under another module or printer are two ops.
    """
    called, symbol = callable_of(op.bsym), op.bsym.sym
    return (
        *(op.name, op.id, op.executor, id(symbol._module), id(symbol.python_printer)),
        None if called is None else id(called),
    )


def given_roots(name: str, proxy: Proxy | None) -> tuple[Root, ...]:
    """Classes of something the caller gave: its memory by device; a list is its own class."""
    if isinstance(proxy, CollectionProxy):
        return (f"list {name}",)
    return (f"@{device_of(proxy)}",) if isinstance(proxy, TensorProxy) else ()


def is_callers_memory(root: Root) -> bool:
    """Whether a storage class is memory that the caller holds."""
    return isinstance(root, str) and root.startswith("@")
