"""Operations whose result shares, or may share, the memory of an argument."""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.building.bounds import Params
from cgverify.fuzzing.pool import Pool, Ref, Symbol
from cgverify.fuzzing.signatures import INT, choice
from cgverify.fuzzing.values import Shape, TensorType, broadcast


def emit_view(
    pool: Pool, function: str, args: tuple[Any, ...], shape: Shape, *, writable: bool = True, **kw: Any
) -> Ref:
    """Emit a call whose result shares, or may share, the memory of its first argument."""
    value = pool.tensor(args[0])
    (result,) = pool.emit(
        function, args, shapes=(shape,), dtype=value.dtype, bound=value.bound, view_of=args[0], writable=writable, **kw
    )
    return result


def factorings(numel: int) -> list[Shape]:
    """Return the shapes of up to three dimensions with `numel` elements, plain ones first."""
    divisors = [d for d in range(1, numel + 1) if numel % d == 0]
    two = [(d, numel // d) for d in reversed(divisors)]
    three = [(d, e, numel // d // e) for d in divisors if d > 1 for e in divisors if e > 1 and numel % (d * e) == 0]
    return [(numel,), *two, *three]


def reshape(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Change the shape to one with as many elements."""
    shapes = factorings(pool.tensor(refs[0]).numel)
    shape = shapes[params["shape"] % len(shapes)]
    emit_view(pool, "torch.reshape", (refs[0], shape), shape)


def transpose(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Swap two neighbouring dimensions."""
    sizes = list(pool.tensor(refs[0]).shape)
    a = params["dim"] % len(sizes)
    b = (a + 1) % len(sizes)
    sizes[a], sizes[b] = sizes[b], sizes[a]
    emit_view(pool, "torch.transpose", (refs[0], a, b), tuple(sizes))


def permute(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Rotate the dimensions."""
    shape = pool.tensor(refs[0]).shape
    turn = params["turn"] % len(shape)
    order = tuple((d + turn) % len(shape) for d in range(len(shape)))
    emit_view(pool, "torch.permute", (refs[0], order), tuple(shape[d] for d in order))


def turn(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Transpose a matrix."""
    shape = pool.tensor(refs[0]).shape
    emit_view(pool, "Tensor.t", refs, shape[::-1], symbol=Symbol("permute", (refs[0], (1, 0))))


def movedim(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Make the first dimension the last."""
    shape = pool.tensor(refs[0]).shape
    emit_view(pool, "torch.movedim", (refs[0], 0, -1), (*shape[1:], shape[0]))


def swapaxes(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Transpose as :func:`transpose` does, but by an op of which Thunder does not know that it returns a view."""
    shape = pool.tensor(refs[0]).shape
    emit_view(pool, "torch.swapaxes", (refs[0], 0, 1), (shape[1], shape[0], *shape[2:]))


def select(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Take one index of one dimension."""
    shape = pool.tensor(refs[0]).shape
    dim = params["dim"] % len(shape)
    emit_view(pool, "torch.select", (refs[0], dim, params["index"] % shape[dim]), shape[:dim] + shape[dim + 1 :])


def choose_key(shape: Shape, params: Params) -> tuple[Any, Shape]:
    """Return an index of plain slices (or one integer) and the shape it selects."""
    dim = params["dim"] % len(shape)
    size = shape[dim]
    start = params["start"] % size
    if params["kind"] == "integer" and dim == 0:
        return start, shape[1:]
    length = 1 + params["length"] % (size - start)
    step = 2 if params["kind"] == "stepped" else 1
    stop = start + length
    picked = (*shape[:dim], len(range(start, stop, step)), *shape[dim + 1 :])
    whole = tuple(slice(None) for _ in range(dim))
    return (*whole, slice(start, stop, step if step > 1 else None)), picked


KEY_PARAMETERS = {"dim": INT, "start": INT, "length": INT, "kind": choice("slice", "integer", "stepped")}


def getitem(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Index by a slice or an integer."""
    key, shape = choose_key(pool.tensor(refs[0]).shape, params)
    emit_view(pool, "getitem", (refs[0], key), shape)


def expand(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Repeat the tensor along a new first dimension, without a copy."""
    shape = (2, *pool.tensor(refs[0]).shape)
    emit_view(pool, "Tensor.expand", (refs[0], shape), shape, writable=False)


def expand_as(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Repeat the tensor as another's shape demands, or, where it does not fit, along a new first dimension."""
    shape, other = pool.tensor(refs[0]).shape, pool.tensor(refs[1])
    if broadcast(shape, other.shape) != other.shape or other.drawn:
        expand(pool, refs, params)
        return
    symbol = Symbol("expand", (refs[0], other.shape))
    emit_view(pool, "Tensor.expand_as", refs, other.shape, writable=False, symbol=symbol)


def newaxis(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Insert a first and a last dimension by indexing."""
    emit_view(pool, "getitem", (refs[0], (None, Ellipsis, None)), (1, *pool.tensor(refs[0]).shape, 1))


def diagonal(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Take the diagonal of the first two dimensions."""
    shape = pool.tensor(refs[0]).shape
    emit_view(pool, "torch.diagonal", (refs[0], 0, 0, 1), (*shape[2:], min(shape[:2])))


def narrow(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Take some rows, by an op of which Thunder does not know that it returns a view."""
    shape = pool.tensor(refs[0]).shape
    start = params["start"] % shape[0]
    emit_view(pool, "torch.narrow", (refs[0], 0, start, shape[0] - start), (shape[0] - start, *shape[1:]))


def squeeze(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Drop a dimension if its size is 1."""
    shape = pool.tensor(refs[0]).shape
    dim = params["dim"] % len(shape)
    emit_view(pool, "torch.squeeze", (refs[0], dim), shape[:dim] + shape[dim + (shape[dim] == 1) :])


def unsqueeze(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Insert a dimension of size 1."""
    shape = pool.tensor(refs[0]).shape
    dim = params["dim"] % (len(shape) + 1)
    emit_view(pool, "torch.unsqueeze", (refs[0], dim), (*shape[:dim], 1, *shape[dim:]))


def flatten(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Make one dimension of all."""
    emit_view(pool, "torch.flatten", refs, (pool.tensor(refs[0]).numel,))


def ravel(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Flatten as :func:`flatten` does, but by an op of which Thunder does not know that it may return a view."""
    emit_view(pool, "torch.ravel", refs, (pool.tensor(refs[0]).numel,))


def unflatten(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """View a contiguous tensor with one more dimension."""
    value = pool.tensor(refs[0])
    shape = (1, *value.shape)
    emit_view(pool, "Tensor.view", (contiguous(pool, refs[0]), shape), shape)


def contiguous(pool: Pool, ref: Ref) -> Ref:
    """Make the memory dense, by a copy if need be."""
    return emit_view(pool, "Tensor.contiguous", (ref,), pool.tensor(ref).shape)


def chunk(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Cut into two views."""
    value = pool.tensor(refs[0])
    dim = params["dim"] % value.rank
    half = (value.shape[dim] + 1) // 2
    sizes = (half, value.shape[dim] - half)
    shapes = tuple((*value.shape[:dim], size, *value.shape[dim + 1 :]) for size in sizes)
    pool.emit("torch.chunk", (refs[0], 2, dim), shapes=shapes, dtype=value.dtype, bound=value.bound, view_of=refs[0])


def split(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Cut the last row off, as views."""
    value = pool.tensor(refs[0])
    dim = params["dim"] % value.rank
    sizes = (value.shape[dim] - 1, 1)
    shapes = tuple((*value.shape[:dim], size, *value.shape[dim + 1 :]) for size in sizes)
    args = (refs[0], sizes, dim)
    pool.emit("torch.split", args, shapes=shapes, dtype=value.dtype, bound=value.bound, view_of=refs[0])


def unbind(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Take every row, as views."""
    value = pool.tensor(refs[0])
    shapes = (value.shape[1:],) * value.shape[0]
    pool.emit("torch.unbind", (refs[0], 0), shapes=shapes, dtype=value.dtype, bound=value.bound, view_of=refs[0])


def divisible(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
    """Accept a tensor that every dimension of which can be cut."""
    value = pool.types[ref.value]
    return isinstance(value, TensorType) and value.rank > 0 and all(size > 1 for size in value.shape)


def several_rows(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
    """Accept a tensor of more than one row, and of few."""
    value = pool.types[ref.value]
    return isinstance(value, TensorType) and value.rank > 0 and 1 < value.shape[0] <= 4
