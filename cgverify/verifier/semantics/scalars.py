"""When a Python number and the 0-d tensor that it was read from are one value to an op, to the last bit.

Derived apart from the transform. Torch decides what both forms compute: `torch.result_type` on tensors of the same
shapes and dtypes must give one dtype, that of the 0-d tensor, for the number and for the tensor, so nothing is rounded
on the way in; and the op must be one whose kernels treat both forms alike, which is a table. `div` is not in it: by a
number torch multiplies with the reciprocal. Nor is arithmetic on doubles, where a GPU keeps the payload of one of two
NaNs: which one depends on the form. In narrower types it makes one and the same NaN.
"""

from __future__ import annotations

from functools import cache

from cgverify.verifier.semantics.proxies import device_of
from cgverify.verifier.semantics.signatures import base_name

import torch
from thunder.core import dtypes
from thunder.core.prims import PrimIDs
from thunder.core.proxies import NumberProxy, TensorProxy
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.executors import torchex

# Op -> whether a number may stand on the left: torch has no comparison of a number with a tensor.
_ALIKE = {
    **dict.fromkeys(("add", "sub", "mul"), True),
    **dict.fromkeys(("eq", "ne", "ge", "gt", "le", "lt"), False),
}


def scalar_source(bsym: BoundSymbol) -> TensorProxy | None:
    """The 0-d device tensor whose value the op hands to the host as a number, None if it does something else."""
    if base_name(bsym.sym) != "item" or not _is_torchs(bsym.sym) or len(bsym.args) != 1 or bsym.kwargs:
        return None
    tensor = bsym.args[0]
    is_scalar = isinstance(tensor, TensorProxy) and not tensor.shape and device_of(tensor).startswith("cuda")
    return tensor if is_scalar and isinstance(bsym.output, NumberProxy) else None


def is_scalar_like_tensor(bsym: BoundSymbol, number: str, tensor: TensorProxy) -> bool:
    """Whether the op gives the same bits for the number, one of its arguments, and for the tensor it was read from."""
    arguments = bsym.args
    name = base_name(bsym.sym)
    if name not in _ALIKE or not _is_torchs(bsym.sym) or len(arguments) != 2 or not _has_no_factor(bsym):
        return False
    left = isinstance(arguments[0], NumberProxy)
    value, other = arguments if left else reversed(arguments)
    if not isinstance(value, NumberProxy) or value.name != number or not isinstance(other, TensorProxy):
        return False
    if device_of(other) != device_of(tensor) or (left and not _ALIKE[name]):
        return False
    dtype = _torch_dtype(tensor)
    if dtype is torch.float64 and name in ("add", "sub", "mul"):
        return False
    return _computes_in(dtype, _torch_dtype(other), bool(other.shape))


@cache
def _computes_in(dtype: torch.dtype, other: torch.dtype, has_dimensions: bool) -> bool:
    """Whether number and tensor are both taken in `dtype`, and the other operand too."""
    if dtype.is_complex or dtype is torch.bool:
        return False  # a complex product is no single rounding; `item` of a bool is an int to Thunder
    one = torch.empty((1,) if has_dimensions else (), dtype=other, device="meta")
    number = 1.0 if dtype.is_floating_point else 1
    taken = {torch.result_type(one, number), torch.result_type(one, torch.empty((), dtype=dtype, device="meta"))}
    return other is dtype and taken == {dtype}


def _is_torchs(symbol: Symbol) -> bool:
    """Whether it is a prim, or the very symbol of the torch executor: another one of that name may run anything."""
    return isinstance(symbol.id, PrimIDs) or torchex.ex.opmap.get(str(symbol.id)) is symbol


def _has_no_factor(bsym: BoundSymbol) -> bool:
    factor = bsym.kwargs.get("alpha", 1)
    return set(bsym.kwargs) <= {"alpha"} and type(factor) in (int, float) and factor == 1


def _torch_dtype(proxy: TensorProxy) -> torch.dtype:
    found: torch.dtype = dtypes.to_torch_dtype(proxy.dtype)
    return found
