"""How an operation's result is bounded, and how an elementwise call is emitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cgverify.fuzzing.pool import Pool, Ref, Symbol
from cgverify.fuzzing.values import Scalar, TensorType, broadcast, promote

Bound = Callable[..., float]


Params = Mapping[str, Any]


FUNCTIONAL = "torch.nn.functional."


def bounded(pool: Pool, rule: Bound | None, operands: tuple[Any, ...]) -> float | None:
    """Apply a bound rule to refs and literals; None if there is no rule or some bound is not known."""
    if rule is None:
        return None
    bounds = [pool.types[v.value].bound if isinstance(v, Ref) else literal_bound(v) for v in operands]
    return None if any(b is None for b in bounds) else rule(*bounds)


def literal_bound(value: Scalar) -> float | None:
    """Return the magnitude of an integral literal, None for any other."""
    return abs(float(value)) if float(value).is_integer() else None


def types_of(pool: Pool, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the types of refs; literals stand for themselves."""
    return tuple(pool.types[v.value] if isinstance(v, Ref) else v for v in operands)


def emit_elementwise(
    pool: Pool,
    function: str,
    operands: tuple[Any, ...],
    extra: tuple[Any, ...] = (),
    *,
    dtype: str | None = None,
    symbol: str | Symbol | None = None,
    bound: Bound | None = None,
    discrete: bool = False,
    kwargs: dict[str, Any] | None = None,
) -> Ref:
    """Emit a call whose result broadcasts and promotes its operands."""
    types = types_of(pool, operands)
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
        bound=1.0 if dtype == "bool" else bounded(pool, bound, operands),
        discrete=discrete,
    )
    return result


def add_bound(a: float, b: float) -> float:
    """Bound a sum or a difference."""
    return a + b


def mul_bound(a: float, b: float) -> float:
    """Bound a product."""
    return a * b


def same_bound(a: float) -> float:
    """Bound what changes signs at most."""
    return a
