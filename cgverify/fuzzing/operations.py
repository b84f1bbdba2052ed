"""The vocabulary: one declarative entry per operation, from plain to exotic within each family.

Most entries are one line, made by a helper for their kind (`_unary`, `_binary`, `_reduction`, ...). A bound rule
takes the bounds of the operands and returns that of the result (see TensorType.bound); no rule means: not exact any
more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from cgverify.fuzzing.pool import Dtype, On, Pool, Ref, Symbol
from cgverify.fuzzing.signatures import (
    FLAG,
    INT,
    Accepts,
    Operation,
    Parameter,
    broadcastable,
    choice,
    destination,
    number,
    same_shape,
    source,
    tensor,
)
from cgverify.fuzzing.values import (
    DTYPES,
    FLOATS,
    INTEGERS,
    NUMERIC,
    WIDE_FLOATS,
    NumberType,
    Scalar,
    Shape,
    TensorType,
    broadcast,
    promote,
)

Bound = Callable[..., float]
Params = Mapping[str, Any]
FUNCTIONAL = "torch.nn.functional."


def _bounded(pool: Pool, rule: Bound | None, operands: tuple[Any, ...]) -> float | None:
    """Apply a bound rule to refs and literals; None if there is no rule or some bound is not known."""
    if rule is None:
        return None
    bounds = [pool.types[v.value].bound if isinstance(v, Ref) else _literal_bound(v) for v in operands]
    return None if any(b is None for b in bounds) else rule(*bounds)


def _literal_bound(value: Scalar) -> float | None:
    return abs(float(value)) if float(value).is_integer() else None


def _types(pool: Pool, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(pool.types[v.value] if isinstance(v, Ref) else v for v in operands)


def _elementwise(
    pool: Pool,
    function: str,
    operands: tuple[Any, ...],
    extra: tuple[Any, ...] = (),
    *,
    dtype: str | None = None,
    symbol: str | None = None,
    bound: Bound | None = None,
    discrete: bool = False,
    kwargs: dict[str, Any] | None = None,
) -> Ref:
    """Emit a call whose result broadcasts and promotes its operands."""
    types = _types(pool, operands)
    shape = broadcast(*(t.shape for t in types if isinstance(t, TensorType)))
    if shape is None:
        raise ValueError(f"{function}: operands do not broadcast; the entry's operands must ensure it")
    (result,) = pool.emit(
        function,
        (*operands, *extra),
        kwargs,
        shapes=(shape,),
        dtype=dtype or promote(*types),
        symbol=symbol,
        bound=1.0 if dtype == "bool" else _bounded(pool, bound, operands),
        discrete=discrete,
    )
    return result


def _unary(
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
    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        call = function or f"torch.{name}"
        _elementwise(pool, call, refs, extra, dtype=dtype, symbol=symbol, bound=bound, discrete=discrete)

    return Operation(name, "elementwise", (tensor(dtypes),), build)


def _binary(
    name: str,
    dtypes: tuple[str, ...] = NUMERIC,
    *,
    family: str = "elementwise",
    numbers: bool = True,
    bound: Bound | None = None,
    discrete: bool = False,
    dtype: str | None = None,
) -> Operation:
    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        _elementwise(pool, f"torch.{name}", refs, dtype=dtype, bound=bound, discrete=discrete)

    second = broadcastable(dtypes, numbers=numbers, host_scalar=numbers)
    return Operation(name, family, (tensor(dtypes), second), build)


def _scalar(
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
        _elementwise(pool, f"torch.{name}", operands, dtype=dtype, bound=bound, discrete=discrete)

    return Operation(f"{name}_scalar", "elementwise", (tensor(dtypes),), build, {"value": choice(*values)})


def _clamp(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    limit = params["limit"]
    _elementwise(pool, "torch.clamp", refs, (-limit, limit), bound=lambda a: min(a, limit))


def _lerp(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    _elementwise(pool, "torch.lerp", refs, (0.5,))


def _addcmul(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    _elementwise(pool, "torch.addcmul", refs, kwargs={"value": 2.0}, bound=lambda a, b, c: a + 2 * b * c)


def _condition(pool: Pool, ref: Ref) -> Ref:
    """Return `ref` if it is a mask, else a mask of its positive elements."""
    if pool.tensor(ref).dtype == "bool":
        return ref
    return _elementwise(pool, "torch.gt", (ref, 0), dtype="bool", discrete=True)


def _where(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    first, second, condition = refs
    dtype = promote(*_types(pool, (first, second)))
    bound = _bounded(pool, max, (first, second))
    mask = _condition(pool, condition)
    shape = broadcast(*(pool.tensor(ref).shape for ref in (first, second, mask)))
    if shape is not None:
        pool.emit("torch.where", (mask, first, second), shapes=(shape,), dtype=dtype, bound=bound)


def _masked_fill(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    first, condition = refs
    bound = _bounded(pool, lambda a: max(a, 2.0), (first,))
    mask, kind = _condition(pool, condition), pool.tensor(first)
    shape = broadcast(kind.shape, pool.tensor(mask).shape)
    if shape is not None:
        pool.emit("Tensor.masked_fill", (first, mask, 2.0), shapes=(shape,), dtype=kind.dtype, bound=bound)


def _reduced(value: TensorType, params: Params) -> tuple[tuple[int, ...], Shape]:
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


def _reduction(
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
        dims, shape = _reduced(value, {**params, "keepdim": params["keepdim"] and not whole})
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
            bound=_bounded(pool, (lambda a: bound(a, count)) if bound else None, refs),
            discrete=discrete,
        )

    parameters = {"over": choice("all", "one") if single else choice("all", "one", "two"), "dim": INT, "keepdim": FLAG}
    return Operation(name, "reduction", (tensor(dtypes, nonempty=True),), build, parameters)


def _integral(dtype: str) -> str:
    return dtype if dtype in FLOATS else "i64"


def _along(
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
        limit = _bounded(pool, (lambda a: bound(a, value.shape[dim])) if bound else None, refs)
        pool.emit(function, (*refs, dim), shapes=(value.shape,), dtype=result(value.dtype), bound=limit)

    return Operation(name, family, (tensor(dtypes, min_rank=1, nonempty=True),), build, {"dim": INT})


def _layer_norm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    args = (refs[0], value.shape[-1:])
    pool.emit(FUNCTIONAL + "layer_norm", args, shapes=(value.shape,), dtype=value.dtype)


def _inner_matches(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
    value, first = pool.types[ref.value], pool.tensor(chosen[0])
    return (
        isinstance(value, TensorType)
        and (value.dtype, value.device) == (first.dtype, first.device)
        and value.rank in (1, 2, 3)
        and value.shape[-2 if value.rank > 1 else 0] == first.shape[-1]
        and (broadcast(first.shape[:-2], value.shape[:-2]) is not None)
    )


def _matmul(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    a, b = pool.tensor(refs[0]), pool.tensor(refs[1])
    batch = broadcast(a.shape[:-2], b.shape[:-2]) or ()
    shape = (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ()))
    bound = _bounded(pool, lambda x, y: x * y * a.shape[-1], refs)
    pool.emit("torch.matmul", refs, shapes=(shape,), dtype=a.dtype, bound=bound)


def _gram(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """The product x @ x.T: a matrix product whose shapes always match."""
    value = pool.tensor(refs[0])
    turned = _view(pool, "torch.transpose", (refs[0], -2, -1), (*value.shape[:-2], value.shape[-1], value.shape[-2]))
    _matmul(pool, (refs[0], turned), params)


def _weight_matches(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
    value, first = pool.types[ref.value], pool.tensor(chosen[0])
    return (
        isinstance(value, TensorType)
        and (value.dtype, value.device, value.rank) == (first.dtype, first.device, 2)
        and value.shape[1] == first.shape[-1]
    )


def _linear(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    a, b = pool.tensor(refs[0]), pool.tensor(refs[1])
    bound = _bounded(pool, lambda x, y: x * y * a.shape[-1], refs)
    pool.emit(FUNCTIONAL + "linear", refs, shapes=((*a.shape[:-1], b.shape[0]),), dtype=a.dtype, bound=bound)


def _view(pool: Pool, function: str, args: tuple[Any, ...], shape: Shape, *, writable: bool = True, **kw: Any) -> Ref:
    """Emit a call whose result shares, or may share, the memory of its first argument."""
    value = pool.tensor(args[0])
    (result,) = pool.emit(
        function, args, shapes=(shape,), dtype=value.dtype, bound=value.bound, view_of=args[0], writable=writable, **kw
    )
    return result


def _factorings(numel: int) -> list[Shape]:
    """Return the shapes of up to three dimensions with `numel` elements, plain ones first."""
    divisors = [d for d in range(1, numel + 1) if numel % d == 0]
    two = [(d, numel // d) for d in reversed(divisors)]
    three = [(d, e, numel // d // e) for d in divisors if d > 1 for e in divisors if e > 1 and numel % (d * e) == 0]
    return [(numel,), *two, *three]


def _reshape(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    shapes = _factorings(pool.tensor(refs[0]).numel)
    shape = shapes[params["shape"] % len(shapes)]
    _view(pool, "torch.reshape", (refs[0], shape), shape)


def _transpose(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    sizes = list(pool.tensor(refs[0]).shape)
    a = params["dim"] % len(sizes)
    b = (a + 1) % len(sizes)
    sizes[a], sizes[b] = sizes[b], sizes[a]
    _view(pool, "torch.transpose", (refs[0], a, b), tuple(sizes))


def _permute(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    shape = pool.tensor(refs[0]).shape
    turn = params["turn"] % len(shape)
    order = tuple((d + turn) % len(shape) for d in range(len(shape)))
    _view(pool, "torch.permute", (refs[0], order), tuple(shape[d] for d in order))


def _select(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    shape = pool.tensor(refs[0]).shape
    dim = params["dim"] % len(shape)
    _view(pool, "torch.select", (refs[0], dim, params["index"] % shape[dim]), shape[:dim] + shape[dim + 1 :])


def _key(shape: Shape, params: Params) -> tuple[Any, Shape]:
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


_KEY = {"dim": INT, "start": INT, "length": INT, "kind": choice("slice", "integer", "stepped")}


def _getitem(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    key, shape = _key(pool.tensor(refs[0]).shape, params)
    _view(pool, "getitem", (refs[0], key), shape)


def _expand(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    shape = (2, *pool.tensor(refs[0]).shape)
    _view(pool, "Tensor.expand", (refs[0], shape), shape, writable=False)


def _squeeze(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    shape = pool.tensor(refs[0]).shape
    dim = params["dim"] % len(shape)
    _view(pool, "torch.squeeze", (refs[0], dim), shape[:dim] + shape[dim + (shape[dim] == 1) :])


def _unsqueeze(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    shape = pool.tensor(refs[0]).shape
    dim = params["dim"] % (len(shape) + 1)
    _view(pool, "torch.unsqueeze", (refs[0], dim), (*shape[:dim], 1, *shape[dim:]))


def _flatten(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    _view(pool, "torch.flatten", refs, (pool.tensor(refs[0]).numel,))


def _ravel(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Flatten as :func:`_flatten` does, but by an op of which Thunder does not know that it may return a view."""
    _view(pool, "torch.ravel", refs, (pool.tensor(refs[0]).numel,))


def _unflatten(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    shape = (1, *value.shape)
    _view(pool, "Tensor.view", (_contiguous(pool, refs[0]), shape), shape)


def _contiguous(pool: Pool, ref: Ref) -> Ref:
    return _view(pool, "Tensor.contiguous", (ref,), pool.tensor(ref).shape)


def _chunk(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    dim = params["dim"] % value.rank
    half = (value.shape[dim] + 1) // 2
    sizes = (half, value.shape[dim] - half)
    shapes = tuple((*value.shape[:dim], size, *value.shape[dim + 1 :]) for size in sizes)
    pool.emit("torch.chunk", (refs[0], 2, dim), shapes=shapes, dtype=value.dtype, bound=value.bound, view_of=refs[0])


def _divisible(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
    value = pool.types[ref.value]
    return isinstance(value, TensorType) and value.rank > 0 and all(size > 1 for size in value.shape)


def _flip(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    args = (refs[0], (params["dim"] % value.rank,))
    pool.emit("torch.flip", args, shapes=(value.shape,), dtype=value.dtype, bound=value.bound)


def _triangle(name: str) -> Operation:
    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.tensor(refs[0])
        pool.emit(f"torch.{name}", refs, shapes=(value.shape,), dtype=value.dtype, bound=value.bound)

    return Operation(name, "joining", (tensor(min_rank=2),), build)


def _cat(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    dim = params["dim"] % value.rank
    shape = (*value.shape[:dim], 2 * value.shape[dim], *value.shape[dim + 1 :])
    bound = _bounded(pool, max, refs)
    pool.emit("torch.cat", (refs, dim), shapes=(shape,), dtype=value.dtype, bound=bound)


def _stack(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    dim = params["dim"] % (value.rank + 1)
    shape = (*value.shape[:dim], 2, *value.shape[dim:])
    bound = _bounded(pool, max, refs)
    pool.emit("torch.stack", (refs, dim), shapes=(shape,), dtype=value.dtype, bound=bound)


def _topk(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    shape = (*value.shape[:-1], 1)
    args = (refs[0], 1, -1)
    pool.emit("torch.topk", args, shapes=(shape, shape), dtype=(value.dtype, "i64"), discrete=True)


def _index(pool: Pool, ref: Ref, size: int) -> Ref:
    """Return valid indices into a dimension of `size`, from any integer tensor."""
    return _elementwise(pool, "torch.remainder", (ref, size), bound=lambda a, b: b)


def _index_select(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value, index = pool.tensor(refs[0]), pool.tensor(refs[1])
    dim = params["dim"] % value.rank
    shape = (*value.shape[:dim], index.shape[0], *value.shape[dim + 1 :])
    picked = _index(pool, refs[1], value.shape[dim])
    pool.emit("torch.index_select", (refs[0], dim, picked), shapes=(shape,), dtype=value.dtype, bound=value.bound)


def _embedding(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    table, index = pool.tensor(refs[0]), pool.tensor(refs[1])
    shape = (*index.shape, table.shape[1])
    picked = _index(pool, refs[1], table.shape[0])
    pool.emit(FUNCTIONAL + "embedding", (picked, refs[0]), shapes=(shape,), dtype=table.dtype, bound=table.bound)


def _to_dtype(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value, dtype = pool.tensor(refs[0]), params["dtype"]
    to_integer = value.is_float and dtype not in FLOATS
    bound = 1.0 if dtype == "bool" else value.bound
    view = refs[0] if dtype == value.dtype else None
    args = (refs[0], Dtype(dtype))
    pool.emit(
        "Tensor.to",
        args,
        shapes=(value.shape,),
        dtype=dtype,
        bound=bound,
        discrete=to_integer,
        view_of=view,
        writable=value.writable,
    )


def _to_device(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
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


def _clone(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    pool.emit("torch.clone", refs, shapes=(value.shape,), dtype=value.dtype, bound=value.bound, writable=value.writable)


def _template(dtypes: tuple[str, ...], *, cpu: bool = True) -> Accepts:
    """Accept a tensor of which only the shape and dtype are read.

    Nothing random may reach it: Thunder sees that its content is unused and removes the draw, which eager PyTorch
    makes.
    """
    is_tensor = tensor(dtypes, cpu=cpu)
    return lambda pool, ref, chosen: is_tensor(pool, ref, chosen) and not pool.types[ref.value].drawn


_SHAPES: tuple[Shape, ...] = ((3,), (2, 3), (), (1, 3), (4,))


def _factory(name: str, fill: float | None) -> Operation:
    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        shape, dtype = _SHAPES[params["shape"] % len(_SHAPES)], params["dtype"]
        value = () if name in ("zeros", "ones") else (2 if dtype == "i64" else 2.0,)
        kwargs = {"device": On("cuda"), "dtype": Dtype(dtype)}
        pool.emit(f"torch.{name}", (shape, *value), kwargs, shapes=(shape,), dtype=dtype, bound=fill)

    return Operation(name, "factory", (), build, {"shape": INT, "dtype": choice("f32", "f64", "i64")})


def _like(name: str, fill: float) -> Operation:
    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.tensor(refs[0])
        extra = (2.0,) if name == "full_like" else ()
        pool.emit(f"torch.{name}", (refs[0], *extra), shapes=(value.shape,), dtype=value.dtype, bound=fill)

    return Operation(name, "factory", (_template(FLOATS),), build)


def _arange(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    kwargs = {"device": On("cuda")}
    symbol = Symbol("arange", (), {"start": 0, "step": 1, "end": 3, **kwargs})
    pool.emit("torch.arange", (3,), kwargs, shapes=((3,),), dtype="i64", bound=2.0, symbol=symbol)


def _random(name: str, *, bound: float | None = None) -> Operation:
    """A draw of a fixed shape."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        shape = _SHAPES[params["shape"] % len(_SHAPES)]
        dtype = "i64" if name == "randint" else "f32"
        kwargs = {"device": On("cuda"), "dtype": Dtype(dtype)}
        limits: tuple[Any, ...] = {"randint": (0, 5), "rand": (), "randn": ()}[name]
        symbol = Symbol("uniform", (shape, 0, 1), kwargs) if name == "rand" else Symbol(name, (*limits, shape), kwargs)
        pool.emit(
            f"torch.{name}",
            (*limits, shape),
            kwargs,
            shapes=(shape,),
            dtype=dtype,
            bound=bound,
            random=True,
            symbol=symbol,
        )

    return Operation(name, "random", (), build, {"shape": INT})


def _random_like(name: str) -> Operation:
    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.tensor(refs[0])
        kwargs = {"device": On(value.device), "dtype": Dtype(value.dtype)}
        is_uniform = name == "rand_like"
        symbol = Symbol(
            "uniform" if is_uniform else "randn", (value.shape, 0, 1) if is_uniform else (value.shape,), kwargs
        )
        pool.emit(f"torch.{name}", refs, shapes=(value.shape,), dtype=value.dtype, random=True, symbol=symbol)

    return Operation(name, "random", (_template(WIDE_FLOATS, cpu=False),), build)


def _dropout(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    value = pool.tensor(refs[0])
    args = (refs[0], 0.5, True, False)
    pool.emit(FUNCTIONAL + "dropout", args, shapes=(value.shape,), dtype=value.dtype, random=True)


def _read_number(pool: Pool, ref: Ref) -> Ref:
    value = pool.tensor(ref)
    kind = NumberType("float" if value.is_float else "int", value.bound, value.fragile, value.drawn)
    return pool.emit_number("Tensor.item", (ref,), kind)


def _item(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """The number x.sum().item(), or x.item() where x has one element."""
    value = pool.tensor(refs[0])
    if value.numel == 1 and value.rank == 0:
        _read_number(pool, refs[0])
        return
    bound = _bounded(pool, lambda a: a * value.numel, refs)
    (total,) = pool.emit("torch.sum", refs, shapes=((),), dtype=_integral(value.dtype), bound=bound)
    _read_number(pool, total)


def _number_arithmetic(name: str, bound: Bound) -> Operation:
    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.types[refs[0].value]
        if isinstance(value, NumberType):
            literal = 2.0 if value.kind == "float" else 2
            limit = _bounded(pool, bound, (refs[0], literal))
            pool.emit_number(
                f"operator.{name}", (refs[0], literal), NumberType(value.kind, limit, value.fragile, value.drawn)
            )

    return Operation(f"number_{name}", "number", (number("float", "int"),), build)


def _number_full(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """A tensor filled with a number that the program read."""
    like, value = refs
    shape, dtype = pool.tensor(like).shape, pool.tensor(like).dtype
    pool.emit("torch.full_like", (like, value), shapes=(shape,), dtype=dtype, bound=pool.types[value.value].bound)


def _in_place_binary(name: str, bound: Bound | None, dtypes: tuple[str, ...] = NUMERIC) -> Operation:
    def fits(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        """The result must have the destination's shape and a dtype that it can hold."""
        if not broadcastable(dtypes)(pool, ref, chosen):
            return False
        into, value = pool.tensor(chosen[0]), pool.types[ref.value]
        if isinstance(value, TensorType) and broadcast(into.shape, value.shape) != into.shape:
            return False
        return promote(into, value) == into.dtype

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        pool.emit_write(f"Tensor.{name}_", refs, symbol=name, bound=_bounded(pool, bound, refs))

    return Operation(f"{name}_", "in-place", (destination(dtypes), source(fits)), build)


def _in_place_unary(
    name: str, bound: Bound | None, extra: tuple[Any, ...] = (), symbol: str | None = None
) -> Operation:
    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        pool.emit_write(f"Tensor.{name}_", (*refs, *extra), symbol=symbol or name, bound=_bounded(pool, bound, refs))

    return Operation(f"{name}_", "in-place", (destination(FLOATS),), build)


def _copy_in_place(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    pool.emit_write("Tensor.copy_", refs, symbol=Symbol("copy_", ()), bound=pool.types[refs[1].value].bound)


def _setitem_scalar(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    key, _ = _key(pool.tensor(refs[0]).shape, params)
    symbol = Symbol("copy_with_setitem_impl", (refs[0], key, 2.0))
    pool.emit_write("setitem", (refs[0], key, 2.0), symbol=symbol, bound=2.0)


def _setitem(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Write a slice: where the source does not broadcast to it, its total does."""
    key, shape = _key(pool.tensor(refs[0]).shape, params)
    value = refs[1]
    kind = pool.tensor(value)
    if broadcast(shape, kind.shape) != shape:
        bound = _bounded(pool, lambda a: a * kind.numel, (value,))
        (value,) = pool.emit("torch.sum", (value,), shapes=((),), dtype=_integral(kind.dtype), bound=bound)
    symbol = Symbol("copy_with_setitem_impl", (refs[0], key, value))
    pool.emit_write("setitem", (refs[0], key, value), symbol=symbol, bound=pool.types[value.value].bound)


def _add_bound(a: float, b: float) -> float:
    return a + b


def _mul_bound(a: float, b: float) -> float:
    return a * b


def _same(a: float) -> float:
    return a


def _operation(
    name: str, family: str, operands: tuple[Accepts, ...], build: Any, parameters: Mapping[str, Parameter] | None = None
) -> Operation:
    return Operation(name, family, operands, build, parameters or {})


_ANY = tensor(DTYPES)
_RANKED = tensor(DTYPES, min_rank=1, nonempty=True)
_FLOAT = tensor(FLOATS)

_TABLE = (
    _binary("add", bound=_add_bound),
    _binary("mul", bound=_mul_bound),
    _binary("sub", bound=_add_bound),
    _unary("neg", NUMERIC, bound=_same),
    _unary("relu", function=FUNCTIONAL + "relu", bound=_same),
    _scalar("add", (1.0, 2, -0.5), bound=_add_bound),
    _scalar("mul", (2.0, 3, 0.5), bound=_mul_bound),
    _unary("abs", NUMERIC, symbol="torch_abs", bound=_same),
    _unary("tanh"),
    _unary("sin"),
    _unary("cos"),
    _unary("exp"),
    _unary("sqrt"),
    _unary("rsqrt"),
    _unary("reciprocal"),
    _unary("log1p"),
    _unary("erf"),
    _unary("gelu", function=FUNCTIONAL + "gelu"),
    _unary("silu", function=FUNCTIONAL + "silu"),
    _unary("floor", bound=_same, discrete=True),
    _unary("ceil", bound=_same, discrete=True),
    _unary("trunc", bound=_same, discrete=True),
    _unary("round", symbol="torch_round", bound=_same, discrete=True),
    _unary("isfinite", dtype="bool", discrete=True),
    _unary("bitwise_not", (*INTEGERS, "bool")),
    _binary("true_divide", FLOATS),
    _binary("maximum", numbers=False, bound=max),
    _binary("minimum", numbers=False, bound=max),
    _binary("atan2", FLOATS, numbers=False),
    _binary("eq", dtype="bool", discrete=True),
    _binary("ne", dtype="bool", discrete=True),
    _binary("lt", dtype="bool", discrete=True),
    _binary("le", dtype="bool", discrete=True),
    _binary("gt", dtype="bool", discrete=True),
    _binary("ge", dtype="bool", discrete=True),
    _binary("logical_and", DTYPES, numbers=False, dtype="bool", discrete=True),
    _binary("logical_or", DTYPES, numbers=False, dtype="bool", discrete=True),
    _binary("bitwise_and", (*INTEGERS, "bool"), numbers=False),
    _binary("bitwise_xor", (*INTEGERS, "bool"), numbers=False),
    _scalar("pow", (2, 3), bound=lambda a, n: a**n),
    _scalar("fmod", (3.0,), FLOATS, bound=lambda a, b: b, discrete=True),
    _scalar("remainder", (3,), INTEGERS),
    _scalar("true_divide", (2.0, 3.0), FLOATS),
    _operation("clamp", "elementwise", (_FLOAT,), _clamp, {"limit": choice(1.0, 0.5)}),
    _operation("lerp", "elementwise", (_FLOAT, same_shape(FLOATS, same_dtype=True)), _lerp),
    _operation("addcmul", "elementwise", (_FLOAT, *[same_shape(FLOATS, same_dtype=True)] * 2), _addcmul),
    _operation(
        "where", "elementwise", (tensor(), broadcastable(numbers=False, host_scalar=False), same_shape(DTYPES)), _where
    ),
    _operation("masked_fill", "elementwise", (_FLOAT, same_shape(DTYPES)), _masked_fill),
    _reduction("sum", DTYPES, result=_integral, bound=lambda a, n: a * n),
    _reduction("mean", FLOATS),
    _reduction("amax", bound=lambda a, n: a),
    _reduction("amin", bound=lambda a, n: a),
    _reduction("prod", result=_integral, bound=lambda a, n: a**n, single=True),
    _reduction("var", WIDE_FLOATS),
    _reduction("any", DTYPES, result=lambda d: "bool", symbol="any_tensor", single=True, discrete=True),
    _reduction("all", DTYPES, result=lambda d: "bool", symbol="all_tensor", single=True, discrete=True),
    _reduction("argmax", result=lambda d: "i64", single=True, discrete=True),
    _reduction("argmin", result=lambda d: "i64", single=True, discrete=True),
    _along("cumsum", family="reduction", function="torch.cumsum", bound=lambda a, n: a * n),
    _operation("matmul", "matmul", (tensor(FLOATS, min_rank=1, max_rank=3, nonempty=True), _inner_matches), _matmul),
    _operation("gram", "matmul", (tensor(FLOATS, min_rank=2, max_rank=3, nonempty=True),), _gram),
    _operation("linear", "matmul", (tensor(FLOATS, min_rank=1, nonempty=True), _weight_matches), _linear),
    _along("softmax", family="normalisation", function="torch.softmax"),
    _along("log_softmax", family="normalisation", function="torch.nn.functional.log_softmax"),
    _operation("layer_norm", "normalisation", (tensor(WIDE_FLOATS, min_rank=1, nonempty=True),), _layer_norm),
    _operation("reshape", "view", (tensor(DTYPES, nonempty=True),), _reshape, {"shape": INT}),
    _operation("transpose", "view", (tensor(DTYPES, min_rank=2),), _transpose, {"dim": INT}),
    _operation("getitem", "view", (_RANKED,), _getitem, _KEY),
    _operation("select", "view", (_RANKED,), _select, {"dim": INT, "index": INT}),
    _operation("unsqueeze", "view", (_ANY,), _unsqueeze, {"dim": INT}),
    _operation("squeeze", "view", (tensor(DTYPES, min_rank=1),), _squeeze, {"dim": INT}),
    _operation("flatten", "view", (tensor(DTYPES, min_rank=1),), _flatten),
    _operation("ravel", "view", (tensor(DTYPES, min_rank=1),), _ravel),
    _operation("permute", "view", (tensor(DTYPES, min_rank=1),), _permute, {"turn": INT}),
    _operation("expand", "view", (tensor(DTYPES, max_rank=3),), _expand),
    _operation("view", "view", (tensor(DTYPES, max_rank=3),), _unflatten),
    _operation("contiguous", "view", (_ANY,), lambda pool, refs, params: _contiguous(pool, refs[0])),
    _operation("chunk", "view", (_divisible,), _chunk, {"dim": INT}),
    _operation("flip", "joining", (_RANKED,), _flip, {"dim": INT}),
    _operation("cat", "joining", (_RANKED, same_shape(DTYPES, same_dtype=True)), _cat, {"dim": INT}),
    _operation("stack", "joining", (_ANY, same_shape(DTYPES, same_dtype=True)), _stack, {"dim": INT}),
    _triangle("tril"),
    _triangle("triu"),
    _operation("topk", "indexing", (tensor(WIDE_FLOATS, min_rank=1, nonempty=True),), _topk),
    _operation(
        "index_select", "indexing", (_RANKED, tensor(("i64",), min_rank=1, max_rank=1)), _index_select, {"dim": INT}
    ),
    _operation(
        "embedding", "indexing", (tensor(FLOATS, min_rank=2, max_rank=2, nonempty=True), tensor(("i64",))), _embedding
    ),
    _operation(
        "to_dtype",
        "conversion",
        (_ANY,),
        _to_dtype,
        {"dtype": choice("f64", "f32", "bf16", "f16", "i64", "i32", "bool")},
    ),
    _operation("clone", "conversion", (_ANY,), _clone),
    _factory("zeros", 0.0),
    _factory("ones", 1.0),
    _factory("full", 2.0),
    _like("zeros_like", 0.0),
    _like("ones_like", 1.0),
    _like("full_like", 2.0),
    _operation("arange", "factory", (), _arange),
    _operation("item", "number", (tensor((*WIDE_FLOATS, "i64"), nonempty=True),), _item),
    _number_arithmetic("mul", _mul_bound),
    _number_arithmetic("add", _add_bound),
    _operation("number_full", "number", (_template(FLOATS), number("float")), _number_full),
    _operation("copy_", "in-place", (destination(), source(same_shape(DTYPES, same_dtype=True))), _copy_in_place),
    _in_place_binary("add", _add_bound),
    _in_place_binary("mul", _mul_bound),
    _in_place_binary("sub", _add_bound),
    _in_place_unary("zero", lambda a: a, symbol="zeros_like"),
    _in_place_unary("relu", _same),
    _in_place_unary("tanh", None),
    _in_place_unary("clamp", lambda a: min(a, 1.0), (-1.0, 1.0)),
    _operation(
        "setitem",
        "in-place",
        (destination(min_rank=1), source(tensor(DTYPES, nonempty=True), itself=False)),
        _setitem,
        _KEY,
    ),
    _operation("setitem_scalar", "in-place", (destination(FLOATS, min_rank=1),), _setitem_scalar, _KEY),
    _random("rand"),
    _random("randn"),
    _random_like("rand_like"),
    _operation("dropout", "random", (tensor(WIDE_FLOATS, cpu=False),), _dropout),
    _random_like("randn_like"),
    _random("randint", bound=4.0),
    _operation("to_device", "transfer", (_ANY,), _to_device, {"device": choice("cpu", "cuda")}),
)

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _TABLE}
"""Every operation, by name, from plain to exotic."""

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(operation.family for operation in _TABLE))
"""The families that a strategy may ban."""
