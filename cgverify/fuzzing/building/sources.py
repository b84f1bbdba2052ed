"""Values from nothing: factories and random draws; and Python numbers read from tensors."""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.building.bounds import FUNCTIONAL, Bound, Params, bounded
from cgverify.fuzzing.building.reductions import integral_dtype
from cgverify.fuzzing.pool import Dtype, On, Pool, Ref, Symbol
from cgverify.fuzzing.signatures import INT, Accepts, Operation, choice, number, tensor
from cgverify.fuzzing.values import FLOATS, WIDE_FLOATS, NumberType, Shape


def template(dtypes: tuple[str, ...], *, cpu: bool = True) -> Accepts:
    """Accept a tensor of which only the shape and dtype are read.

    Nothing random may reach it: Thunder sees that its content is unused and removes the draw, which eager PyTorch
    makes.
    """
    is_tensor = tensor(dtypes, cpu=cpu)
    return lambda pool, ref, chosen: is_tensor(pool, ref, chosen) and not pool.types[ref.value].drawn


SHAPES: tuple[Shape, ...] = ((3,), (2, 3), (), (1, 3), (4,))


def factory(name: str, fill: float | None) -> Operation:
    """Make an operation that fills a new tensor with one number."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        shape, dtype = SHAPES[params["shape"] % len(SHAPES)], params["dtype"]
        value = () if name in ("zeros", "ones") else (2 if dtype == "i64" else 2.0,)
        kwargs = {"device": On("cuda"), "dtype": Dtype(dtype)}
        pool.emit(f"torch.{name}", (shape, *value), kwargs, shapes=(shape,), dtype=dtype, bound=fill)

    return Operation(name, "factory", (), build, {"shape": INT, "dtype": choice("f32", "f64", "i64")})


def like(name: str, fill: float) -> Operation:
    """Make an operation that fills a tensor of the shape of another."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.tensor(refs[0])
        extra = (2.0,) if name == "full_like" else ()
        pool.emit(f"torch.{name}", (refs[0], *extra), shapes=(value.shape,), dtype=value.dtype, bound=fill)

    return Operation(name, "factory", (template(FLOATS),), build)


def arange(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Count from 0 to 2."""
    kwargs = {"device": On("cuda")}
    symbol = Symbol("arange", (), {"start": 0, "step": 1, "end": 3, **kwargs})
    pool.emit("torch.arange", (3,), kwargs, shapes=((3,),), dtype="i64", bound=2.0, symbol=symbol)


def arange_float(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Count from 0 to 1.5 in halves."""
    kwargs = {"device": On("cuda"), "dtype": Dtype("f32")}
    symbol = Symbol("arange", (), {"start": 0.0, "step": 0.5, "end": 2.0, **kwargs})
    pool.emit("torch.arange", (0.0, 2.0, 0.5), kwargs, shapes=((4,),), dtype="f32", symbol=symbol)


def constant(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Make a tensor of Python numbers."""
    kwargs = {"device": On("cuda")}
    pool.emit("torch.tensor", ((1.0, 2.0, -3.0),), kwargs, shapes=((3,),), dtype="f32", bound=3.0)


def random_draw(name: str, *, bound: float | None = None) -> Operation:
    """A draw of a fixed shape."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        shape = SHAPES[params["shape"] % len(SHAPES)]
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


def random_like(name: str) -> Operation:
    """Make a draw of the shape of another tensor."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.tensor(refs[0])
        kwargs = {"device": On(value.device), "dtype": Dtype(value.dtype)}
        is_uniform = name == "rand_like"
        symbol = Symbol(
            "uniform" if is_uniform else "randn", (value.shape, 0, 1) if is_uniform else (value.shape,), kwargs
        )
        pool.emit(f"torch.{name}", refs, shapes=(value.shape,), dtype=value.dtype, random=True, symbol=symbol)

    return Operation(name, "random", (template(WIDE_FLOATS, cpu=False),), build)


def dropout(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Drop elements at random, as in training."""
    value = pool.tensor(refs[0])
    args = (refs[0], 0.5, True, False)
    pool.emit(FUNCTIONAL + "dropout", args, shapes=(value.shape,), dtype=value.dtype, random=True)


def read_number(pool: Pool, ref: Ref) -> Ref:
    """Add the `.item()` of a 0-d tensor."""
    value = pool.tensor(ref)
    kind = NumberType("float" if value.is_float else "int", value.bound, value.fragile, value.drawn)
    return pool.emit_number("Tensor.item", (ref,), kind)


def item(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """The number x.sum().item(), or x.item() where x has one element."""
    value = pool.tensor(refs[0])
    if value.numel == 1 and value.rank == 0:
        read_number(pool, refs[0])
        return
    bound = bounded(pool, lambda a: a * value.numel, refs)
    (total,) = pool.emit("torch.sum", refs, shapes=((),), dtype=integral_dtype(value.dtype), bound=bound)
    read_number(pool, total)


def number_arithmetic(name: str, bound: Bound) -> Operation:
    """Make an operation between a number that the program read and a literal."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.types[refs[0].value]
        if isinstance(value, NumberType):
            literal = 2.0 if value.kind == "float" else 2
            limit = bounded(pool, bound, (refs[0], literal))
            pool.emit_number(
                f"operator.{name}", (refs[0], literal), NumberType(value.kind, limit, value.fragile, value.drawn)
            )

    return Operation(f"number_{name}", "number", (number("float", "int"),), build)


def number_full(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """A tensor filled with a number that the program read."""
    like, value = refs
    shape, dtype = pool.tensor(like).shape, pool.tensor(like).dtype
    pool.emit("torch.full_like", (like, value), shapes=(shape,), dtype=dtype, bound=pool.types[value.value].bound)
