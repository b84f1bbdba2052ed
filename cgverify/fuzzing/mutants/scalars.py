"""Faults of feeding an op the tensor behind a Python number (group B)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cgverify.fuzzing.mutants.base import Mutant
from cgverify.ir import Op, TraceView
from cgverify.plan import DeviceScalar
from cgverify.transform import driver, scalars

from thunder.core.proxies import TensorProxy

_choose_scalars = scalars.choose_scalars


_INEXACT = scalars.EXACT | dict.fromkeys(("div", "true_divide", "pow", "fmod", "remainder", "atan2"), (0, 1))


class InexactScalar(Mutant):
    """Any op of two operands may read the tensor behind a number, also one that computes otherwise with a number."""

    faults = ("B01", "J02")
    code = "CG501"
    shows = "static"
    in_rewrite = ((scalars, "EXACT", _INEXACT), (scalars, "ARITHMETIC", _INEXACT))


def _of_any_dtype(op: Op, number: str, tensor: TensorProxy) -> bool:
    return True


class ScalarOfAnyDtype(Mutant):
    """A number is replaced by the tensor behind it whatever the dtypes are: the op computes in another one."""

    faults = ("B01",)
    code = "CG501"
    shows = "static"
    in_rewrite = ((scalars, "_is_exact", _of_any_dtype),)


def _of_another_tensor(view: TraceView, *args: Any) -> Sequence[DeviceScalar]:
    chosen = _choose_scalars(view, *args)
    changed = []
    for scalar in chosen:
        right = view.values[scalar.tensor]
        alike = (
            name
            for name, value in view.values.items()
            if name != scalar.tensor
            and isinstance(value, TensorProxy)
            and (value.shape, value.dtype) == (right.shape, right.dtype)
            and view.definitions.get(name, -1) < view.definitions.get(scalar.tensor, 0)
        )
        changed.append(replace(scalar, tensor=next(alike, scalar.tensor)))
    return tuple(changed)


class ScalarOfAnotherTensor(Mutant):
    """A number is replaced by a tensor that is like the one it was read from, and is another."""

    faults = ("B01", "G02")
    code = "CG501"
    shows = "static"
    in_rewrite = ((driver, "choose_scalars", _of_another_tensor),)


def _written_later(view: TraceView, found: Any, aliases: Any) -> Sequence[DeviceScalar]:
    pure = [replace(effects, writes=(), opaque=False) for effects in found]
    return _choose_scalars(view, pure, aliases)


class ScalarWrittenSince(Mutant):
    """A number is replaced by the tensor it was read from although that was written since."""

    faults = ("B01", "G07")
    code = "CG402"
    shows = "static"
    in_rewrite = ((driver, "choose_scalars", _written_later),)
