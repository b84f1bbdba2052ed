"""Process-wide switches that choose kernels: a graph keeps the choice made at its capture.

Read in C and by name: the properties of torch.backends cost ten times as much on every call, a loop over a table twice.
The old TF32 flags are not read: they raise once somebody has used the new fp32_precision settings, and these show the
old flags' values too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_C: Any = torch._C
_precision: Callable[[str, str], str] = torch._C._get_fp32_precision_getter

Switches = tuple[object, ...]


def read_common_switches() -> Switches:
    """Those that may matter to any op: deterministic algorithms, and whether they fill new memory."""
    return _C._get_deterministic_algorithms(), _C._get_deterministic_fill_uninitialized_memory()


def read_all_switches() -> Switches:
    """The common ones, and those of products, convolutions and attention.

    TF32 and the like, reduced-precision reductions and accumulation, cuDNN's switches, and the attention backends with
    their order. Not `preferred_blas_library`: to read it costs as much as all of these.
    """
    return (
        _C._get_deterministic_algorithms(),
        _C._get_deterministic_fill_uninitialized_memory(),
        _precision("cuda", "matmul"),
        _precision("cuda", "conv"),
        _precision("cuda", "rnn"),
        _C._get_cublas_allow_fp16_reduced_precision_reduction(),
        _C._get_cublas_allow_bf16_reduced_precision_reduction(),
        _C._get_cublas_allow_fp16_accumulation(),
        _C._get_cudnn_enabled(),
        _C._get_cudnn_benchmark(),
        _C._get_cudnn_deterministic(),
        _C._get_flash_sdp_enabled(),
        _C._get_mem_efficient_sdp_enabled(),
        _C._get_math_sdp_enabled(),
        _C._get_math_sdp_allow_fp16_bf16_reduction(),
        _C._get_cudnn_sdp_enabled(),
        tuple(_C._get_sdp_priority_order()),
    )
