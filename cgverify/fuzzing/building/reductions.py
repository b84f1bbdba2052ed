"""Reductions, operations along one dimension, matrix products."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from cgverify.fuzzing.building.bounds import FUNCTIONAL, Params, bounded
from cgverify.fuzzing.building.views import emit_view
from cgverify.fuzzing.pool import Pool, Ref
from cgverify.fuzzing.signatures import FLAG, INT, Operation, choice, tensor
from cgverify.fuzzing.values import FLOATS, NUMERIC, Shape, TensorType, broadcast


def reduced_shape(value: TensorType, params: Params) -> tuple[tuple[int, ...], Shape]:
    """Return the dimensions a reduction runs over and the shape it leaves."""
    rank, first = value.rank, params["dim"] % max(value.rank, 1)
    match params["over"]:
        case "all":
            dims = tuple(range(rank))
        case "two" if rank > 1:
            dims = tuple(sorted({first, (first + 1) % rank}))
        case _:
            dims = (first,) if rank else ()
    if params["keepdim"]:
        return dims, tuple(1 if d in dims else size for d, size in enumerate(value.shape))
    return dims, tuple(size for d, size in enumerate(value.shape) if d not in dims)


def reduction(
    name: str,
    dtypes: tuple[str, ...] = NUMERIC,
    *,
    result: Callable[[str], str] = lambda dtype: dtype,
    bound: Callable[[float, int], float] | None = None,
    symbol: str | None = None,
    single: bool = False,
    discrete: bool = False,
) -> Operation:
    """A reduction over one dimension, over two or over all (`single`: one or all, as a number)."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.tensor(refs[0])
        # Without a dimension these functions take no keepdim either.
        whole = params["over"] == "all" and (single or not params["keepdim"])
        dims, shape = reduced_shape(value, {**params, "keepdim": params["keepdim"] and not whole})
        count = prod(value.shape[d] for d in dims)
        args: tuple[Any, ...] = () if whole or not dims else (dims[0] if single else dims,)
        kwargs = {"keepdim": params["keepdim"]} if args else {}
        pool.emit(
            f"torch.{name}",
            (*refs, *args),
            kwargs,
            shapes=(shape,),
            dtype=result(value.dtype),
            symbol=symbol,
            bound=bounded(pool, (lambda a: bound(a, count)) if bound else None, refs),
            discrete=discrete,
        )

    parameters = {"over": choice("all", "one") if single else choice("all", "one", "two"), "dim": INT, "keepdim": FLAG}
    return Operation(name, "reduction", (tensor(dtypes, nonempty=True),), build, parameters)


def integral_dtype(dtype: str) -> str:
    """Return the dtype in which torch sums."""
    return dtype if dtype in FLOATS else "i64"


def along(
    name: str,
    *,
    family: str,
    function: str,
    dtypes: tuple[str, ...] = FLOATS,
    bound: Callable[[float, int], float] | None = None,
    result: Callable[[str], str] = lambda dtype: dtype,
) -> Operation:
    """An operation along one dimension that keeps the shape."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.tensor(refs[0])
        dim = params["dim"] % value.rank
        limit = bounded(pool, (lambda a: bound(a, value.shape[dim])) if bound else None, refs)
        pool.emit(function, (*refs, dim), shapes=(value.shape,), dtype=result(value.dtype), bound=limit)

    return Operation(name, family, (tensor(dtypes, min_rank=1, nonempty=True),), build, {"dim": INT})


def without_last(shape: Shape, *, keep: bool) -> Shape:
    """Return the shape without its last dimension, or with size 1 there."""
    return (*shape[:-1], 1) if keep else shape[:-1]


def layer_norm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Normalise over the last dimension."""
    value = pool.tensor(refs[0])
    args = (refs[0], value.shape[-1:])
    pool.emit(FUNCTIONAL + "layer_norm", args, shapes=(value.shape,), dtype=value.dtype)


def inner_matches(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
    """Accept the right operand of a product with the first."""
    value, first = pool.types[ref.value], pool.tensor(chosen[0])
    return (
        isinstance(value, TensorType)
        and (value.dtype, value.device) == (first.dtype, first.device)
        and value.rank in (1, 2, 3)
        and value.shape[-2 if value.rank > 1 else 0] == first.shape[-1]
        and (broadcast(first.shape[:-2], value.shape[:-2]) is not None)
    )


def matmul(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Multiply matrices, batched or not, or a matrix and a vector."""
    a, b = pool.tensor(refs[0]), pool.tensor(refs[1])
    batch = broadcast(a.shape[:-2], b.shape[:-2]) or ()
    shape = (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))
    bound = bounded(pool, lambda x, y: x * y * a.shape[-1], refs)
    pool.emit("torch.matmul", refs, shapes=(shape,), dtype=a.dtype, bound=bound)


def gram(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """The product x @ x.T: a matrix product whose shapes always match."""
    matmul(pool, (refs[0], _transposed(pool, refs[0])), params)


def _transposed(pool: Pool, ref: Ref) -> Ref:
    shape = pool.tensor(ref).shape
    return emit_view(pool, "torch.transpose", (ref, -2, -1), (*shape[:-2], shape[-1], shape[-2]))


def bmm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Multiply a batch of matrices by their transposes."""
    _product(pool, "torch.bmm", refs[0], ())


def baddbmm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Add a matrix to each product of a batch with its transpose; the added one is a row of the batch."""
    size = pool.tensor(refs[0]).shape[-2]
    row = emit_view(pool, "torch.select", (refs[0], -1, 0), pool.tensor(refs[0]).shape[:-1])
    added = emit_view(pool, "torch.unsqueeze", (row, -1), (*pool.tensor(row).shape, 1))
    spread = emit_view(pool, "Tensor.expand", (added, (-1, -1, size)), (*pool.tensor(row).shape, size), writable=False)
    _product(pool, "torch.baddbmm", refs[0], (spread,))


def addmm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Add the first column to each column of the product with the transpose."""
    column = emit_view(pool, "torch.select", (refs[0], -1, 0), pool.tensor(refs[0]).shape[:-1])
    _product(pool, "torch.addmm", refs[0], (column,))


def _product(pool: Pool, function: str, ref: Ref, added: tuple[Ref, ...]) -> None:
    value, turned = pool.tensor(ref), _transposed(pool, ref)
    shape = (*value.shape[:-1], value.shape[-2])
    bound = bounded(pool, lambda a: a * a * value.shape[-1] + a * len(added), (ref,))
    pool.emit(function, (*added, ref, turned), shapes=(shape,), dtype=value.dtype, bound=bound)


def einsum(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Multiply by a transpose, as an equation."""
    a, b = pool.tensor(refs[0]), pool.tensor(refs[1])
    bound = bounded(pool, lambda x, y: x * y * a.shape[1], refs)
    args = ("ij,kj->ik", *refs)
    pool.emit("torch.einsum", args, shapes=((a.shape[0], b.shape[0]),), dtype=a.dtype, bound=bound)


def weight_matches(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
    """Accept the weight of a linear layer for the first operand."""
    value, first = pool.types[ref.value], pool.tensor(chosen[0])
    return (
        isinstance(value, TensorType)
        and (value.dtype, value.device, value.rank) == (first.dtype, first.device, 2)
        and value.shape[1] == first.shape[-1]
    )


def bias_matches(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
    """Accept the bias of a linear layer for the weight, which is the second operand."""
    value, weight = pool.types[ref.value], pool.tensor(chosen[1])
    return (
        isinstance(value, TensorType)
        and (value.dtype, value.device) == (weight.dtype, weight.device)
        and value.shape == weight.shape[:1]
    )


def linear(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Multiply by a transposed weight, and add a bias if there is one."""
    a, b = pool.tensor(refs[0]), pool.tensor(refs[1])
    bound = bounded(pool, lambda x, y, *bias: x * y * a.shape[-1] + sum(bias), refs)
    pool.emit(FUNCTIONAL + "linear", refs, shapes=((*a.shape[:-1], b.shape[0]),), dtype=a.dtype, bound=bound)
