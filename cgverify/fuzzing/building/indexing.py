"""Operations that read or write at positions told by a tensor: sorting, gathering, scattering.

Where each place may be written once only, the positions are a permutation, made by sorting; so the result does not
depend on the order in which a device works.
"""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.building.bounds import FUNCTIONAL, Params, bounded
from cgverify.fuzzing.building.movement import valid_index
from cgverify.fuzzing.pool import Pool, Ref, Symbol


def order(pool: Pool, ref: Ref, dim: int) -> Ref:
    """Return what sorts a tensor along a dimension: in each line a permutation."""
    value = pool.tensor(ref)
    (result,) = pool.emit("torch.argsort", (ref, dim), shapes=(value.shape,), dtype="i64", discrete=True)
    return result


def sort(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Sort along a dimension."""
    value = pool.tensor(refs[0])
    dim, descending = params["dim"] % value.rank, params["descending"]
    pool.emit(
        "torch.sort",
        (refs[0], dim, descending),
        shapes=(value.shape, value.shape),
        dtype=(value.dtype, "i64"),
        symbol=Symbol("sort", (refs[0], dim, descending)),
        discrete=True,
    )


def gather(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Take elements in the order that sorts another tensor."""
    _take_in_order(pool, "torch.gather", refs, params)


def take_along_dim(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Take elements in the order that sorts another tensor, as numpy calls it."""
    _take_in_order(pool, "torch.take_along_dim", refs, params)


def _take_in_order(pool: Pool, function: str, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    dim = params["dim"] % value.rank
    index = order(pool, refs[1], dim)
    args = (refs[0], dim, index) if function.endswith("gather") else (refs[0], index, dim)
    pool.emit(function, args, shapes=(value.shape,), dtype=value.dtype, bound=value.bound)


def scatter(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Put one tensor's elements into another, in sorted order."""
    _scattered(pool, "torch.scatter", refs, params)


def scatter_add(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Add one tensor's elements to another, in sorted order."""
    _scattered(pool, "torch.scatter_add", refs, params)


def scatter_in_place(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Put one tensor's elements into another, in place."""
    _scattered(pool, "Tensor.scatter_", refs, params)


def scatter_add_in_place(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Add one tensor's elements to another, in place."""
    _scattered(pool, "Tensor.scatter_add_", refs, params)


def _scattered(pool: Pool, function: str, refs: tuple[Ref, ...], params: Params) -> None:
    dim = params["dim"] % pool.tensor(refs[0]).rank
    _put(pool, function, (refs[0], dim, order(pool, refs[1], dim), refs[1]), refs, adds="add" in function)


def index_copy(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Put rows into permuted rows."""
    _put(pool, "torch.index_copy", (refs[0], 0, order(pool, refs[2], 0), refs[1]), refs, adds=False)


def index_copy_in_place(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Put rows into permuted rows, in place: how a cache of keys and values is filled."""
    _put(pool, "Tensor.index_copy_", (refs[0], 0, order(pool, refs[2], 0), refs[1]), refs, adds=False)


def index_add(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Add rows to permuted rows."""
    _put(pool, "torch.index_add", (refs[0], 0, order(pool, refs[2], 0), refs[1]), refs, adds=True)


def index_add_in_place(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Add rows to permuted rows, in place."""
    _put(pool, "Tensor.index_add_", (refs[0], 0, order(pool, refs[2], 0), refs[1]), refs, adds=True)


def index_put(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Put or add rows at permuted positions."""
    accumulate = params["accumulate"]
    _put(pool, "torch.index_put", (refs[0], (order(pool, refs[2], 0),), refs[1], accumulate), refs, adds=accumulate)


def index_put_in_place(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Put or add rows at permuted positions, in place."""
    accumulate = params["accumulate"]
    _put(pool, "Tensor.index_put_", (refs[0], (order(pool, refs[2], 0),), refs[1], accumulate), refs, adds=accumulate)


def _put(pool: Pool, function: str, args: tuple[Any, ...], refs: tuple[Ref, ...], *, adds: bool) -> None:
    """Emit a call that writes, or a copy of, the first operand with elements of the second in it."""
    bound = bounded(pool, (lambda a, b: a + b) if adds else max, refs[:2])
    if function.endswith("_"):
        pool.emit_write(function, args, symbol=function.removeprefix("Tensor.").rstrip("_"), bound=bound)
        return
    value = pool.tensor(refs[0])
    pool.emit(function, args, shapes=(value.shape,), dtype=value.dtype, bound=bound)


def index_fill(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Fill rows, here all of them one by one, with 2."""
    value = pool.tensor(refs[0])
    args = (refs[0], 0, order(pool, refs[1], 0), 2.0)
    pool.emit("torch.index_fill", args, shapes=(value.shape,), dtype=value.dtype, bound=2.0)


def take(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Take elements by their position in row-major order."""
    value, index = pool.tensor(refs[0]), pool.tensor(refs[1])
    picked = valid_index(pool, refs[1], value.numel)
    pool.emit("torch.take", (refs[0], picked), shapes=(index.shape,), dtype=value.dtype, bound=value.bound)


def getitem_tensor(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Index the first dimension by a tensor, which copies."""
    value, index = pool.tensor(refs[0]), pool.tensor(refs[1])
    picked = valid_index(pool, refs[1], value.shape[0])
    shape = (*index.shape, *value.shape[1:])
    pool.emit("getitem", (refs[0], picked), shapes=(shape,), dtype=value.dtype, bound=value.bound)


def setitem_tensor(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Write rows at permuted positions."""
    index = order(pool, refs[2], 0)
    symbol = Symbol("copy_with_setitem_impl", (refs[0], index, refs[1]))
    pool.emit_write("setitem", (refs[0], index, refs[1]), symbol=symbol, bound=pool.tensor(refs[1]).bound)


def one_hot(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Write numbers below 4 as unit vectors."""
    value = pool.tensor(refs[0])
    picked = valid_index(pool, refs[0], 4)
    pool.emit(FUNCTIONAL + "one_hot", (picked, 4), shapes=((*value.shape, 4),), dtype="i64", bound=1.0)
