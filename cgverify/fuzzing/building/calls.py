"""The general helper: an operation that is one call, told by where its shapes, dtypes and arguments come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cgverify.fuzzing.building.bounds import Params
from cgverify.fuzzing.pool import Pool, Ref, Symbol
from cgverify.fuzzing.signatures import Accepts, Operation, Parameter
from cgverify.fuzzing.values import Shape

Types = tuple[Any, ...]
Arguments = Callable[[tuple[Ref, ...], Types, Params], tuple[Any, ...]]
CallBound = Callable[..., float]
"""From the types of the operands and the bounds of each to the bound of the results."""


def like_first(types: Types, params: Params) -> tuple[Shape, ...]:
    """Return the shape of the first operand."""
    return (types[0].shape,)


def limit_by(rule: CallBound | None, types: Types) -> float | None:
    """Apply a bound rule to the operands; None if there is no rule or some bound is not known."""
    bounds = [kind.bound for kind in types]
    return None if rule is None or None in bounds else rule(types, *bounds)


def call(
    name: str,
    family: str,
    operands: tuple[Accepts, ...],
    *,
    function: str = "",
    shapes: Callable[[Types, Params], tuple[Shape, ...]] = like_first,
    args: Arguments = lambda refs, types, params: refs,
    kwargs: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Parameter] | None = None,
    dtype: str | tuple[str, ...] | None = None,
    bound: CallBound | None = None,
    symbol: str | Callable[[tuple[Any, ...]], Symbol] | None = None,
    discrete: bool = False,
    random: bool = False,
    view: bool = False,
    writable: bool = True,
    tracked: bool = True,
) -> Operation:
    """Make an operation of one call.

    Args:
        name: its name; `torch.NAME` is called unless `function` says otherwise.
        family: its family.
        operands: what it takes.
        function: see :class:`~cgverify.fuzzing.pool.Statement`.
        shapes: the shapes of the results, from the operands' types and the parameters; the first operand's by default.
        args: the positional arguments; the operands by default.
        kwargs: named arguments.
        parameters: by name.
        dtype: of the results, or one for each; the first operand's by default, or where it is empty.
        bound: bounds the results, see :data:`CallBound`.
        symbol: the executor symbol where it has another name, or is made of the arguments otherwise.
        discrete: as for :meth:`Pool.emit`, like the rest.
    """

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        types: Types = tuple(pool.types[ref.value] for ref in refs)
        arguments = args(refs, types, params)
        results = tuple(name or types[0].dtype for name in dtype) if isinstance(dtype, tuple) else dtype
        pool.emit(
            function or f"torch.{name}",
            arguments,
            dict(kwargs or {}),
            shapes=shapes(types, params),
            dtype=results or types[0].dtype,
            symbol=symbol(arguments) if callable(symbol) else symbol,
            bound=limit_by(bound, types),
            discrete=discrete,
            view_of=refs[0] if view else None,
            writable=writable,
            random=random,
            tracked=tracked,
        )

    return Operation(name, family, operands, build, parameters or {})


def write(
    name: str,
    operands: tuple[Accepts, ...],
    *,
    function: str = "",
    args: Arguments = lambda refs, types, params: refs,
    parameters: Mapping[str, Parameter] | None = None,
    bound: CallBound | None = None,
    symbol: str = "",
    discrete: bool = False,
) -> Operation:
    """Make an operation that writes its first operand by one call of the method `NAME`."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        types: Types = tuple(pool.types[ref.value] for ref in refs)
        arguments = args(refs, types, params)
        pool.emit_write(
            function or f"Tensor.{name}",
            arguments,
            symbol=symbol or name.rstrip("_"),
            bound=limit_by(bound, types),
            discrete=discrete,
        )

    return Operation(name, "in-place", operands, build, parameters or {})
