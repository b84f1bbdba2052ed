"""What a capture forbids: the checks made before an op is recorded, in torch's order and with torch's errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cgverify.emulation.calls import Call
from cgverify.emulation.judged import JUDGED

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA


def check_capturable(cuda: EmulatedCUDA, call: Call, host: Sequence[torch.Tensor]) -> None:
    """Raise if the op waits for the device or copies through pageable memory; `host`: its CPU tensors with dimensions.

    Raises `CaptureError`, which invalidates the capture, or `HostCopyError`, which does not.
    """
    info = call.info
    if info.name.removeprefix("aten::") not in JUDGED:
        cuda.unjudged_ops.add(info.name)
    if info.host_copy or _copies_through_host(cuda, call):
        cuda.check_host_copy(is_pinned=False, non_blocking=False)
    elif info.indexes:
        _check_indexing(cuda, call, host)
    elif info.syncs and not (info.name == "aten::repeat_interleave" and call.argument("output_size") is not None):
        cuda.wait_for_current_stream()


def _copies_through_host(cuda: EmulatedCUDA, call: Call) -> bool:
    if call.info.name == "aten::histc":  # without bounds it looks for the minimum and maximum
        return call.args[2:4] in ((), (0, 0))
    if call.info.name == "aten::where":  # a CPU scalar is copied, not baked in
        return not all(map(cuda.is_on_device, call.tensors()))
    return False


def _check_indexing(cuda: EmulatedCUDA, call: Call, host: Sequence[torch.Tensor]) -> None:
    masks = sum(index is not None and index.dtype in (torch.bool, torch.uint8) for index in call.args[1])
    if masks:
        value = call.argument(2)
        writes_scalar = value is not None and value.numel() == 1 and not cuda.is_on_device(value)
        if not (writes_scalar and masks == 1):  # x[mask] = 1.0 becomes a masked_fill_
            cuda.wait_for_current_stream()
    elif host:
        cuda.check_host_copy(is_pinned=False, non_blocking=False)
