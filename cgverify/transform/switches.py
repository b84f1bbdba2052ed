"""Whether torch's switches for products, convolutions and attention may choose the kernels of an op."""

from __future__ import annotations

from cgverify.transform.tables import CONVERSIONS, ELEMENTWISE, FACTORIES, LINEAR, REDUCTIONS, VIEWS

from thunder.core import prims
from thunder.core.symbol import BoundSymbol
from thunder.executors import torchex

_INDIFFERENT = (VIEWS | CONVERSIONS | ELEMENTWISE | REDUCTIONS | FACTORIES) - LINEAR
_INDIFFERENT_PRIMS = _INDIFFERENT | {"broadcast_in_dim", "convert_element_type", "iota", "slice", "squeeze"}
_NO_OPS = frozenset({prims.PrimIDs.DEL, prims.PrimIDs.RETURN, prims.PrimIDs.COMMENT})


def may_read_switches(bsym: BoundSymbol) -> bool:
    """Whether some switch beside the common ones may matter to this op; True if nothing is known of it.

    An op of a fusing executor is what it is made of.
    """
    if bsym.sym.is_fusion:
        return any(map(_may_read_when_fused, bsym.subsymbols))
    if bsym.sym.id in _NO_OPS:
        return False
    return bsym.sym.executor is not torchex.ex or str(bsym.sym.id) not in _INDIFFERENT


def _may_read_when_fused(bsym: BoundSymbol) -> bool:
    if isinstance(bsym.sym.id, prims.PrimIDs):
        return bsym.sym.id.name.lower() not in _INDIFFERENT_PRIMS
    return not bsym.subsymbols or any(map(_may_read_when_fused, bsym.subsymbols))
