"""What an op comes down to: its leaves, one vocabulary for every stage of Thunder's pipeline.

`ltorch.add`, the executor's `torch.add` and a fusion that holds either all decompose to `prims.add`. A leaf is an op
without a decomposition; its name drops what the executor added (`torch_prims_reshape_impl` is `reshape`), and its
constants drop the differences in spelling (`torch.float32` and `dtypes.float32`, lists and tuples).
"""

from __future__ import annotations

from collections.abc import Hashable

from cgverify.verifier.semantics.proxies import callable_of
from cgverify.verifier.semantics.signatures import base_name

import torch
from thunder.core import dtypes
from thunder.core.devices import Device, to_device
from thunder.core.prims import PrimIDs
from thunder.core.pytree import tree_flatten
from thunder.core.symbol import BoundSymbol


def is_composite(bsym: BoundSymbol) -> bool:
    """Whether its decomposition says what it does; an empty one does where it only hands back its arguments."""
    if bsym.subsymbols:
        return True
    if bsym.sym.is_prim or bsym.sym.is_fusion or bsym.sym.executor is not None:
        return False
    given = {proxy.name for proxy in bsym.flat_proxy_args}
    return all(proxy.name in given for proxy in bsym.flat_proxy_outs)


def is_cotangent(bsym: BoundSymbol) -> bool:
    """Whether it asks for the gradient of a result, as joint traces do."""
    return bsym.sym.id is PrimIDs.GET_GRAD


def leaf_symbol(bsym: BoundSymbol) -> Hashable:
    """The name of a leaf, the same at every stage; for a fusion of unknown content, its callable too."""
    return (bsym.sym.name, id(callable_of(bsym))) if bsym.sym.is_fusion else base_name(bsym.sym)


def leaf_literal(value: object) -> Hashable:
    """A constant, the same at every stage: 1 and 1.0 differ, `torch.float32` and `dtypes.float32` do not."""
    if isinstance(value, torch.dtype):
        value = dtypes.to_dtype(value)
    if isinstance(value, dtypes.dtype):
        return ("dtype", str(dtypes.to_strong_dtype(value)))
    if isinstance(value, (Device, torch.device)):
        return ("device", str(to_device(value).device_str()))
    if isinstance(value, (float, complex)):
        return (type(value).__name__, repr(value))
    try:
        hash(value)
    except TypeError:
        return (type(value).__name__, repr(value))
    return (type(value).__name__, value)


def flat_leaves(tree: object) -> list[object]:
    """The leaves of a nest, proxies and constants, in order."""
    return list(tree_flatten(tree)[0])
