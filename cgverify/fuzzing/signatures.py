"""What an entry of the vocabulary consists of: an operation, its operands, its parameters.

An operand says which values it accepts, given the operands chosen before it; a parameter says which JSON values it
accepts and how a raw integer is fitted to the operand (a dimension modulo the rank). `build` adds the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cgverify.fuzzing.pool import Pool, Ref
from cgverify.fuzzing.values import DTYPES, INTEGERS, NUMERIC, NumberType, TensorType, broadcast

Accepts = Callable[[Pool, Ref, tuple[Ref, ...]], bool]
Build = Callable[[Pool, tuple[Ref, ...], Mapping[str, Any]], object]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation.

    Attributes:
        kind: `int` (any integer, fitted when resolved), `flag` or `choice`.
        default: the value where a step leaves it out; also what shrinking tends to.
        choices: the values allowed for a `choice`, from plain to exotic.
    """

    kind: str
    default: Any
    choices: tuple[Any, ...] = ()

    def accepts(self, value: Any) -> bool:
        """Whether a step may carry `value`."""
        match self.kind:
            case "flag":
                return isinstance(value, bool)
            case "int":
                return isinstance(value, int) and not isinstance(value, bool)
            case _:
                return any(value == choice and type(value) is type(choice) for choice in self.choices)

    def describe(self) -> str:
        """Say in words what is accepted."""
        match self.kind:
            case "flag":
                return "true or false"
            case "int":
                return "an integer"
            case _:
                return "one of " + ", ".join(map(repr, self.choices))


INT = Parameter("int", 0)
FLAG = Parameter("flag", False)


def choice(*values: Any) -> Parameter:
    """Return a parameter with one of `values`, the first by default."""
    return Parameter("choice", values[0], values)


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the vocabulary.

    Attributes:
        name: its name in a program.
        family: the group that a strategy may ban as a whole.
        operands: what it takes, in order.
        build: adds its statements to the pool.
        parameters: by name.
    """

    name: str
    family: str
    operands: tuple[Accepts, ...]
    build: Build
    parameters: Mapping[str, Parameter] = field(default_factory=dict)


def tensor(
    dtypes: tuple[str, ...] = NUMERIC,
    *,
    min_rank: int = 0,
    max_rank: int = 8,
    nonempty: bool = False,
    cpu: bool = True,
    same_dtype: bool = False,
) -> Accepts:
    """Accept a tensor of certain dtypes and ranks, on the device (if asked, of the dtype) of the operands before it."""

    def accepts(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        value = pool.types[ref.value]
        return (
            isinstance(value, TensorType)
            and value.dtype in dtypes
            and min_rank <= value.rank <= max_rank
            and not (nonempty and value.numel == 0)
            and (cpu or value.device == "cuda")
            and all(pool.tensor(other).device == value.device for other in chosen if pool.is_tensor(other))
            and not (same_dtype and chosen and value.dtype != pool.tensor(chosen[0]).dtype)
        )

    return accepts


def broadcastable(dtypes: tuple[str, ...] = NUMERIC, *, numbers: bool = True, host_scalar: bool = True) -> Accepts:
    """Accept a tensor that broadcasts with the first operand, a number, or (beside a CUDA tensor) a 0-d CPU tensor."""

    def accepts(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        value = pool.types[ref.value]
        first = pool.tensor(chosen[0])
        if isinstance(value, NumberType):
            # Thunder refuses an integer read from a tensor beside floats: "float() argument must be a string ...".
            return numbers and (value.kind == "float" or first.dtype in INTEGERS)
        from_host = host_scalar and value.device == "cpu" and value.rank == 0 < first.rank
        device_fits = value.device == first.device or from_host
        return value.dtype in dtypes and device_fits and broadcast(first.shape, value.shape) is not None

    return accepts


def same_shape(dtypes: tuple[str, ...] = NUMERIC, *, same_dtype: bool = False) -> Accepts:
    """Accept a tensor of the first operand's shape and device, and dtype if asked."""

    def accepts(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        value, first = pool.types[ref.value], pool.tensor(chosen[0])
        return (
            isinstance(value, TensorType)
            and (value.shape, value.device) == (first.shape, first.device)
            and value.dtype in dtypes
            and not (same_dtype and value.dtype != first.dtype)
        )

    return accepts


def length_matches(dim: int, dtypes: tuple[str, ...], *, same_dtype: bool = False) -> Accepts:
    """Accept a vector as long as dimension `dim` of the first operand, on its device."""
    is_vector = tensor(dtypes, min_rank=1, max_rank=1, same_dtype=same_dtype)
    return lambda pool, ref, chosen: (
        is_vector(pool, ref, chosen) and pool.tensor(ref).shape[0] == pool.tensor(chosen[0]).shape[dim]
    )


def destination(dtypes: tuple[str, ...] = DTYPES, *, min_rank: int = 0) -> Accepts:
    """Accept a tensor that may be written in place: no overlapping elements, nothing that autograd has seen."""
    is_tensor = tensor(dtypes, min_rank=min_rank, nonempty=True)

    def accepts(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        if not is_tensor(pool, ref, chosen):
            return False
        value = pool.tensor(ref)
        return value.writable and not value.needs_grad and value.storage not in pool.grad_storages

    return accepts


def source(fits: Accepts, *, itself: bool = True) -> Accepts:
    """Accept what `fits` accepts unless it might partly overlap the destination, or needs a gradient.

    `itself`: whether it may be the destination itself.
    """

    def accepts(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        if not fits(pool, ref, chosen):
            return False
        value = pool.types[ref.value]
        if isinstance(value, NumberType):
            return True
        apart = (itself and ref == chosen[0]) or value.storage != pool.tensor(chosen[0]).storage
        return apart and not value.needs_grad

    return accepts


def untrained(fits: Accepts) -> Accepts:
    """Accept what `fits` accepts in a program that trains nothing.

    For ops that Thunder registers by itself: where anything is trained it differentiates them all, by running PyTorch's
    autograd on fake CUDA tensors, which aborts the process where PyTorch is built without CUDA.
    """

    def accepts(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        trains = any(isinstance(value, TensorType) and value.needs_grad for value in pool.types)
        return not trains and fits(pool, ref, chosen)

    return accepts


def without_training(operation: Operation) -> Operation:
    """Keep an operation out of programs that train anything: Thunder asks for the gradient of each op there, and has
    none of this one.
    """
    first, *others = operation.operands
    return replace(operation, operands=(untrained(first), *others))


def number(*kinds: str) -> Accepts:
    """Accept a Python number of one of `kinds`."""

    def accepts(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        value = pool.types[ref.value]
        return isinstance(value, NumberType) and value.kind in kinds

    return accepts
