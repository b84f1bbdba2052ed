"""What the emulator must know about an aten op: read off its schema and tags, and from a few tables.

Schema and tags tell what an op writes, whether it is a view, whether it makes a tensor from nothing, draws random
numbers or has a shape that depends on data. They do not tell which CUDA implementations wait for the device or copy
through pageable memory inside a kernel: those ops stand in `SYNCS` and `HOST_COPIES`, found on an H200 with torch 2.11.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

# Ops whose results share memory with an argument though the schema does not say so.
SHARES_MEMORY = {
    "aten::_unsafe_view",
    "aten::_reshape_alias",
    "aten::set_",
    "aten::unsafe_split",
    "aten::unsafe_split_with_sizes",
    "aten::unsafe_chunk",
}
# Ops that only allocate: no kernel is launched.
ALLOCATES = {
    "aten::empty",
    "aten::empty_like",
    "aten::empty_permuted",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
}
# Ops that wait only when a mask is among the indices.
INDEXES = {"aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"}
# CUDA implementations that wait for the device.
SYNCS = {
    "aten::_linalg_check_errors",
    "aten::_linalg_eigh",
    "aten::_linalg_eigvals",
    "aten::linalg_eig",
    "aten::normal.Tensor_Tensor",
    "aten::normal.float_Tensor",
    "aten::_to_sparse",
    "aten::index_fill.int_Tensor",
    "aten::index_fill_.int_Tensor",
}
# CUDA implementations that copy to or from pageable memory.
HOST_COPIES = {
    "aten::bincount",
    "aten::_ctc_loss",
    "aten::_linalg_svd",
    "aten::linalg_matrix_exp",
    "aten::linalg_pinv",
}
# Ops that take CPU tensors with dimensions beside CUDA tensors.
MIXES_HOST = INDEXES | {"aten::_ctc_loss", "aten::_ctc_loss_backward", "aten::_use_cudnn_ctc_loss"}


@dataclass(frozen=True, slots=True)
class OpInfo:
    """Facts about one aten overload."""

    name: str  # "aten::add", without the overload
    returns: tuple[int | str | None, ...]  # per result: the argument it is written into (position or keyword), or None
    is_mutable: bool  # writes an argument
    is_view: bool  # results share memory with an argument; nothing is launched
    is_empty: bool  # allocates only
    is_factory: bool  # takes a device
    is_random: bool
    takes_generator: bool
    indexes: bool  # syncs only for masks
    mixes_host: bool  # takes CPU tensors with dimensions beside device tensors
    iterates: bool  # elementwise, on a TensorIterator
    arguments: tuple[str, ...]  # names, in order
    syncs: bool  # may not be captured
    host_copy: bool  # copies through pageable memory
    is_composite: bool  # has no kernel of its own; to be decomposed


@cache
def describe(func: Any) -> OpInfo:
    """Return the facts about an aten overload (a torch._ops.OpOverload)."""
    schema = func._schema
    name: str = schema.name
    alias = [result.alias_info for result in schema.returns]
    written: dict[str, int | str] = {}
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            for label in argument.alias_info.before_set:
                written[label] = argument.name if argument.kwarg_only else position
    returns = tuple(
        next((written[label] for label in info.before_set if label in written), None) if info else None
        for info in alias
    )
    tags = {str(tag).removeprefix("Tag.") for tag in func.tags}
    arguments = tuple(argument.name for argument in schema.arguments)
    aliases_input = bool(alias) and all(info is not None and not info.is_write for info in alias)
    indexes = name in INDEXES
    data_dependent = bool(tags & {"dynamic_output_shape", "data_dependent_output"})
    return OpInfo(
        name=name,
        returns=returns,
        is_mutable=schema.is_mutable,
        is_view=name in SHARES_MEMORY or "inplace_view" in tags or (not schema.is_mutable and aliases_input),
        is_empty=name in ALLOCATES,
        is_factory="device" in arguments,
        is_random="nondeterministic_seeded" in tags or "generator" in arguments,
        takes_generator="generator" in arguments,
        indexes=indexes,
        mixes_host=name in MIXES_HOST,
        iterates="pointwise" in tags,
        arguments=arguments,
        syncs=(data_dependent and not indexes) or bool({name, f"{name}.{schema.overload_name}"} & SYNCS),
        host_copy=name in HOST_COPIES,
        is_composite=_is_composite(func.name()),
    )


def _is_composite(name: str) -> bool:
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    if not torch._C._dispatch_has_kernel(name):
        return False
    return has_kernel(name, "CompositeImplicitAutograd") and not has_kernel(name, "CPU")
