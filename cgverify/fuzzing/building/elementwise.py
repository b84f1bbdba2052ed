"""Elementwise operations: broadcast, promote, compute each element by itself."""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.building.bounds import Bound, Params, bounded, emit_elementwise, types_of
from cgverify.fuzzing.pool import Pool, Ref, Symbol
from cgverify.fuzzing.signatures import Operation, broadcastable, choice, tensor
from cgverify.fuzzing.values import FLOATS, NUMERIC, Scalar, broadcast, promote


def unary(
    name: str,
    dtypes: tuple[str, ...] = FLOATS,
    *,
    function: str = "",
    symbol: str | None = None,
    bound: Bound | None = None,
    discrete: bool = False,
    dtype: str | None = None,
    extra: tuple[Any, ...] = (),
) -> Operation:
    """Make an operation of one tensor, element by element."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        call = function or f"torch.{name}"
        emit_elementwise(pool, call, refs, extra, dtype=dtype, symbol=symbol, bound=bound, discrete=discrete)

    return Operation(name, "elementwise", (tensor(dtypes),), build)


def binary(
    name: str,
    dtypes: tuple[str, ...] = NUMERIC,
    *,
    family: str = "elementwise",
    numbers: bool = True,
    bound: Bound | None = None,
    discrete: bool = False,
    dtype: str | None = None,
) -> Operation:
    """Make an operation of a tensor and a second operand that broadcasts with it."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        emit_elementwise(pool, f"torch.{name}", refs, dtype=dtype, bound=bound, discrete=discrete)

    second = broadcastable(dtypes, numbers=numbers, host_scalar=numbers)
    return Operation(name, family, (tensor(dtypes), second), build)


def scalar(
    name: str,
    values: tuple[Scalar, ...],
    dtypes: tuple[str, ...] = NUMERIC,
    *,
    bound: Bound | None = None,
    discrete: bool = False,
    dtype: str | None = None,
) -> Operation:
    """An operation between a tensor and a literal of the program."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        operands = (*refs, params["value"])
        emit_elementwise(pool, f"torch.{name}", operands, dtype=dtype, bound=bound, discrete=discrete)

    return Operation(f"{name}scalar", "elementwise", (tensor(dtypes),), build, {"value": choice(*values)})


def clamp(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Limit the magnitude of each element."""
    limit = params["limit"]
    emit_elementwise(pool, "torch.clamp", refs, (-limit, limit), bound=lambda a: min(a, limit))


def clamp_min(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Raise each element to at least 0."""
    emit_elementwise(pool, "torch.clamp", refs, (0,), bound=lambda a: a)


def logical_not(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Tell which elements are zero."""
    symbol = Symbol("eq", (*refs, 0))
    emit_elementwise(pool, "torch.logical_not", refs, dtype="bool", symbol=symbol, discrete=True)


def square(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Multiply by itself."""
    emit_elementwise(pool, "torch.square", refs, symbol=Symbol("mul", refs * 2), bound=lambda a: a * a)


def lerp(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Go half the way from one tensor to another."""
    emit_elementwise(pool, "torch.lerp", refs, (0.5,))


def addcmul(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Add twice a product."""
    emit_elementwise(pool, "torch.addcmul", refs, kwargs={"value": 2.0}, bound=lambda a, b, c: a + 2 * b * c)


def addcdiv(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Add twice a quotient."""
    emit_elementwise(pool, "torch.addcdiv", refs, kwargs={"value": 2.0})


def as_mask(pool: Pool, ref: Ref) -> Ref:
    """Return `ref` if it is a mask, else a mask of its positive elements."""
    if pool.tensor(ref).dtype == "bool":
        return ref
    return emit_elementwise(pool, "torch.gt", (ref, 0), dtype="bool", discrete=True)


def where(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Choose elements by a mask."""
    first, second, condition = refs
    dtype = promote(*types_of(pool, (first, second)))
    bound = bounded(pool, max, (first, second))
    mask = as_mask(pool, condition)
    shape = broadcast(*(pool.tensor(ref).shape for ref in (first, second, mask)))
    if shape is not None:
        pool.emit("torch.where", (mask, first, second), shapes=(shape,), dtype=dtype, bound=bound)


def where_scalar(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Keep elements where a mask says so, take 2 elsewhere."""
    first, condition = refs
    bound = bounded(pool, lambda a: max(a, 2.0), (first,))
    mask, kind = as_mask(pool, condition), pool.tensor(first)
    pool.emit("torch.where", (mask, first, 2.0), shapes=(kind.shape,), dtype=kind.dtype, bound=bound)


def masked_fill(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Replace elements by 2 where a mask says so."""
    first, condition = refs
    bound = bounded(pool, lambda a: max(a, 2.0), (first,))
    mask, kind = as_mask(pool, condition), pool.tensor(first)
    shape = broadcast(kind.shape, pool.tensor(mask).shape)
    if shape is not None:
        pool.emit("Tensor.masked_fill", (first, mask, 2.0), shapes=(shape,), dtype=kind.dtype, bound=bound)
