"""In-place operations."""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.building.bounds import Bound, Params, bounded
from cgverify.fuzzing.building.elementwise import as_mask
from cgverify.fuzzing.building.movement import to_device
from cgverify.fuzzing.building.reductions import integral_dtype
from cgverify.fuzzing.building.sources import read_number
from cgverify.fuzzing.building.views import choose_key, emit_view
from cgverify.fuzzing.pool import Pool, Ref, Symbol
from cgverify.fuzzing.signatures import Operation, broadcastable, destination, source
from cgverify.fuzzing.values import FLOATS, NUMERIC, TensorType, broadcast, promote


def in_place_binary(name: str, bound: Bound | None, dtypes: tuple[str, ...] = NUMERIC) -> Operation:
    """Make an in-place operation with a second operand."""

    def fits(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        """The result must have the destination's shape and a dtype that it can hold."""
        if not broadcastable(dtypes)(pool, ref, chosen):
            return False
        into, value = pool.tensor(chosen[0]), pool.types[ref.value]
        if isinstance(value, TensorType) and broadcast(into.shape, value.shape) != into.shape:
            return False
        return promote(into, value) == into.dtype

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        pool.emit_write(f"Tensor.{name}_", refs, symbol=name, bound=bounded(pool, bound, refs))

    return Operation(f"{name}_", "in-place", (destination(dtypes), source(fits)), build)


def in_place_unary(
    name: str, bound: Bound | None, extra: tuple[Any, ...] = (), symbol: str | None = None, *, min_rank: int = 0
) -> Operation:
    """Make an in-place operation of one tensor."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        pool.emit_write(f"Tensor.{name}_", (*refs, *extra), symbol=symbol or name, bound=bounded(pool, bound, refs))

    return Operation(f"{name}_", "in-place", (destination(FLOATS, min_rank=min_rank),), build)


def copy_in_place(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Copy a tensor into another."""
    pool.emit_write("Tensor.copy_", refs, symbol=Symbol("copy_", ()), bound=pool.types[refs[1].value].bound)


def masked_fill_in_place(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Replace elements by 2 where a mask says so, in place."""
    mask = as_mask(pool, refs[1])
    bound = bounded(pool, lambda a: max(a, 2.0), refs[:1])
    pool.emit_write("Tensor.masked_fill_", (refs[0], mask, 2.0), symbol="masked_fill", bound=bound)


def setitem_mask(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Write a number where a mask says so."""
    mask = as_mask(pool, refs[1])
    symbol = Symbol("copy_with_setitem_impl", (refs[0], mask, 2.0))
    pool.emit_write("setitem", (refs[0], mask, 2.0), symbol=symbol, bound=2.0)


def setitem_scalar(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Write a number into a slice."""
    key, _ = choose_key(pool.tensor(refs[0]).shape, params)
    symbol = Symbol("copy_with_setitem_impl", (refs[0], key, 2.0))
    pool.emit_write("setitem", (refs[0], key, 2.0), symbol=symbol, bound=2.0)


def setitem(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Write a slice: where the source does not broadcast to it, its total does."""
    key, shape = choose_key(pool.tensor(refs[0]).shape, params)
    value = refs[1]
    kind = pool.tensor(value)
    if broadcast(shape, kind.shape) != shape:
        bound = bounded(pool, lambda a: a * kind.numel, (value,))
        (value,) = pool.emit("torch.sum", (value,), shapes=((),), dtype=integral_dtype(kind.dtype), bound=bound)
    symbol = Symbol("copy_with_setitem_impl", (refs[0], key, value))
    pool.emit_write("setitem", (refs[0], key, value), symbol=symbol, bound=pool.types[value.value].bound)


def read_and_reset(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Let the host read a view of a tensor, then write the tensor: how a running total is reported and reset."""
    flat = emit_view(pool, "torch.reshape", (refs[0], (pool.tensor(refs[0]).numel,)), (pool.tensor(refs[0]).numel,))
    if params["by"] == "item":
        read_number(pool, emit_view(pool, "torch.select", (flat, 0, 0), ()))
    else:
        to_device(pool, (flat,), {"device": "cpu"})
    if params["write"] == "zero_":
        pool.emit_write("Tensor.zero_", refs, symbol="zeros_like", bound=0.0)
    else:
        bound = bounded(pool, lambda a: 2 * a, refs)
        pool.emit_write("Tensor.mul_", (*refs, 2.0), symbol="mul", bound=bound)
