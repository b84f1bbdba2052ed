"""What each op does besides computing its result, derived from torch's schemas and Thunder's decompositions.

Facts of one op: which results may share memory with which arguments, which results *are* an argument, which arguments
it writes, whether it draws random numbers, makes the host wait, moves data between host and device, or has a shape that
depends on values. Three sources are joined, each able to add an effect and none able to remove one that another saw:

1. torch's operator schemas (alias and mutation annotations, tags), looked up by the op's name;
2. the nested subsymbols, down to Thunder's prims: `batch_norm` shows its `copy_` there, `dropout` its `uniform`;
3. `tables.py`, for what neither declares.

An op known to none of them is worst case: it may write all memory, draw, and wait; `Facts.unknown` says why.

This is the only part of the verifier that imports torch and Thunder. It shares no table with the transform.
"""

from __future__ import annotations

from cgverify.verifier.semantics.facts import Facts, compute_facts
from cgverify.verifier.semantics.lowering import (
    flat_leaves,
    is_composite,
    is_cotangent,
    leaf_literal,
    leaf_symbol,
)
from cgverify.verifier.semantics.proxies import (
    callable_of,
    device_of,
    flat_proxies,
    is_host,
    is_static,
    metadata_of,
    torch_literal,
)
from cgverify.verifier.semantics.scalars import is_scalar_like_tensor, scalar_source
from cgverify.verifier.semantics.signatures import Signature, base_name, signature

from thunder.core.proxies import CollectionProxy, NumberProxy, Proxy, TensorProxy
from thunder.core.trace import TraceCtx

__all__ = [
    "CollectionProxy",
    "Facts",
    "NumberProxy",
    "Proxy",
    "Signature",
    "TensorProxy",
    "TraceCtx",
    "base_name",
    "callable_of",
    "compute_facts",
    "device_of",
    "flat_leaves",
    "flat_proxies",
    "is_composite",
    "is_cotangent",
    "is_host",
    "is_scalar_like_tensor",
    "is_static",
    "leaf_literal",
    "leaf_symbol",
    "metadata_of",
    "scalar_source",
    "signature",
    "torch_literal",
]
