"""Operations that move elements without computing: joins, indexing, conversions, host transfers."""

from __future__ import annotations

from cgverify.fuzzing.building.bounds import FUNCTIONAL, Params, bounded, emit_elementwise
from cgverify.fuzzing.pool import Dtype, On, Pool, Ref, Symbol
from cgverify.fuzzing.signatures import Operation, tensor
from cgverify.fuzzing.values import FLOATS


def flip(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Reverse one dimension."""
    value = pool.tensor(refs[0])
    args = (refs[0], (params["dim"] % value.rank,))
    pool.emit("torch.flip", args, shapes=(value.shape,), dtype=value.dtype, bound=value.bound)


def triangle(name: str) -> Operation:
    """Make an operation that keeps one triangle of a matrix."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.tensor(refs[0])
        pool.emit(f"torch.{name}", refs, shapes=(value.shape,), dtype=value.dtype, bound=value.bound)

    return Operation(name, "joining", (tensor(min_rank=2),), build)


def cat(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Join two tensors along a dimension."""
    value = pool.tensor(refs[0])
    dim = params["dim"] % value.rank
    shape = (*value.shape[:dim], 2 * value.shape[dim], *value.shape[dim + 1 :])
    bound = bounded(pool, max, refs)
    pool.emit("torch.cat", (refs, dim), shapes=(shape,), dtype=value.dtype, bound=bound)


def cat_twice(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Join a tensor twice, and another, along the first dimension."""
    value = pool.tensor(refs[0])
    shape = (3 * value.shape[0], *value.shape[1:])
    args = ((refs[0], refs[0], refs[1]), 0)
    pool.emit("torch.cat", args, shapes=(shape,), dtype=value.dtype, bound=bounded(pool, max, refs))


def roll(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Shift along a dimension, around the end."""
    value = pool.tensor(refs[0])
    args = (refs[0], 1, params["dim"] % value.rank)
    pool.emit("torch.roll", args, shapes=(value.shape,), dtype=value.dtype, bound=value.bound)


def stack(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Join two tensors along a new dimension."""
    value = pool.tensor(refs[0])
    dim = params["dim"] % (value.rank + 1)
    shape = (*value.shape[:dim], 2, *value.shape[dim:])
    bound = bounded(pool, max, refs)
    pool.emit("torch.stack", (refs, dim), shapes=(shape,), dtype=value.dtype, bound=bound)


def topk(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Take the largest element along the last dimension, and its index."""
    value = pool.tensor(refs[0])
    shape = (*value.shape[:-1], 1)
    args = (refs[0], 1, -1)
    pool.emit("torch.topk", args, shapes=(shape, shape), dtype=(value.dtype, "i64"), discrete=True)


def valid_index(pool: Pool, ref: Ref, size: int) -> Ref:
    """Return valid indices into a dimension of `size`, from any integer tensor."""
    return emit_elementwise(pool, "torch.remainder", (ref, size), bound=lambda a, b: b)


def index_select(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Pick indices of a dimension."""
    value, index = pool.tensor(refs[0]), pool.tensor(refs[1])
    dim = params["dim"] % value.rank
    shape = (*value.shape[:dim], index.shape[0], *value.shape[dim + 1 :])
    picked = valid_index(pool, refs[1], value.shape[dim])
    pool.emit("torch.index_select", (refs[0], dim, picked), shapes=(shape,), dtype=value.dtype, bound=value.bound)


def embedding(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Look rows up in a table."""
    table, index = pool.tensor(refs[0]), pool.tensor(refs[1])
    shape = (*index.shape, table.shape[1])
    picked = valid_index(pool, refs[1], table.shape[0])
    pool.emit(FUNCTIONAL + "embedding", (picked, refs[0]), shapes=(shape,), dtype=table.dtype, bound=table.bound)


def to_dtype(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Convert to another dtype, or to the same one, which returns the tensor itself."""
    value, dtype = pool.tensor(refs[0]), params["dtype"]
    if value.is_float and dtype == "u8":
        dtype = "i64"  # what becomes of a negative number there, C++ leaves open
    to_integer = value.is_float and dtype not in FLOATS
    bound = 1.0 if dtype == "bool" else value.bound
    view = refs[0] if dtype == value.dtype and not params["copy"] else None
    args = (refs[0], Dtype(dtype))
    pool.emit(
        "Tensor.to",
        args,
        {"copy": True} if params["copy"] else {},
        shapes=(value.shape,),
        dtype=dtype,
        bound=bound,
        discrete=to_integer,
        view_of=view,
        writable=value.writable,
    )


def to_like(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Convert to the dtype of another tensor on the same device; nothing random may reach that."""
    value, other = pool.tensor(refs[0]), pool.tensor(refs[1])
    if other.drawn:
        return
    pool.emit(
        "Tensor.to",
        refs,
        shapes=(value.shape,),
        dtype=other.dtype,
        symbol=Symbol("to", (refs[0], Dtype(other.dtype))),
        bound=value.bound,
        view_of=refs[0] if other.dtype == value.dtype else None,
        writable=value.writable,
    )


def cpu(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Move to the host by the method of that name, of which Thunder knows nothing."""
    value = pool.tensor(refs[0])
    view = refs[0] if value.device == "cpu" else None
    pool.emit(
        "Tensor.cpu",
        refs,
        shapes=(value.shape,),
        dtype=value.dtype,
        bound=value.bound,
        view_of=view,
        writable=value.writable,
        device="cpu",
    )


def nll_loss(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Add up, in each row, the element that an index names."""
    value = pool.tensor(refs[0])
    picked = valid_index(pool, refs[1], value.shape[1])
    symbol = Symbol("nll_loss", (refs[0], picked), {"ignore_index": -100})
    kwargs = {"ignore_index": -100}
    pool.emit(FUNCTIONAL + "nll_loss", (refs[0], picked), kwargs, shapes=((),), dtype=value.dtype, symbol=symbol)


def to_device(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Move to the host or to the device."""
    value, device = pool.tensor(refs[0]), params["device"]
    view = refs[0] if device == value.device else None
    pool.emit(
        "Tensor.to",
        (refs[0], On(device)),
        shapes=(value.shape,),
        dtype=value.dtype,
        bound=value.bound,
        view_of=view,
        writable=value.writable,
        device=device,
    )


def clone(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Copy."""
    value = pool.tensor(refs[0])
    pool.emit("torch.clone", refs, shapes=(value.shape,), dtype=value.dtype, bound=value.bound, writable=value.writable)
