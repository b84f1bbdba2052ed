"""What a capture forbids: the checks made before an op is recorded, in torch's order and with torch's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cgverify.emulation.judged import JUDGED
from cgverify.emulation.ops import OpInfo

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA


def check_capturable(
    cuda: EmulatedCUDA, info: OpInfo, args: Sequence[Any], kwargs: dict[str, Any], host: Sequence[torch.Tensor]
) -> None:
    """Raise if the op waits for the device or copies through pageable memory; `host`: its CPU tensors with dimensions.

    Raises `CaptureError`, which invalidates the capture, or `HostCopyError`, which does not.
    """
    if info.name.removeprefix("aten::") not in JUDGED:
        cuda.unjudged_ops.add(info.name)
    if info.host_copy or _copies_through_host(cuda, info, args):
        cuda.check_host_copy(is_pinned=False, non_blocking=False)
    elif info.indexes:
        _check_indexing(cuda, info, args, host)
    elif info.syncs and not (info.name == "aten::repeat_interleave" and kwargs.get("output_size") is not None):
        cuda.wait_for_current_stream()


def _copies_through_host(cuda: EmulatedCUDA, info: OpInfo, args: Sequence[Any]) -> bool:
    if info.name == "aten::histc":  # without bounds it looks for the minimum and maximum
        return tuple(args[2:4]) in ((), (0, 0))
    if info.name == "aten::where":  # a CPU scalar is copied, not baked in
        return any(isinstance(value, torch.Tensor) and not cuda.is_on_device(value) for value in args)
    return False


def _check_indexing(cuda: EmulatedCUDA, info: OpInfo, args: Sequence[Any], host: Sequence[torch.Tensor]) -> None:
    masks = sum(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    if masks:
        writes_scalar = info.name != "aten::index" and args[2].numel() == 1 and not cuda.is_on_device(args[2])
        if not (writes_scalar and masks == 1):  # x[mask] = 1.0 becomes a masked_fill_
            cuda.wait_for_current_stream()
    elif host:
        cuda.check_host_copy(is_pinned=False, non_blocking=False)
