"""A region's body as it has to run, un-graphed or captured: without autocast."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Body = Callable[..., Sequence[torch.Tensor]]

_DEVICES = ("cuda", "cpu")


def without_autocast(body: Body) -> Body:
    """The body with autocast off: Thunder made it casts of the trace already.

    The caller's setting comes back at the end, whatever the body did. Thunder's own decorator brings back the setting
    of the time when the function was decorated; a fusion of its torch.compile executor wears it too.
    """

    def run(*args: torch.Tensor) -> Sequence[torch.Tensor]:
        before = [torch.is_autocast_enabled(device) for device in _DEVICES]
        try:
            _set_autocast((False, False))
            return body(*args)
        finally:
            _set_autocast(before)

    return run


def _set_autocast(wanted: Sequence[bool]) -> None:
    for device, enabled in zip(_DEVICES, wanted, strict=True):
        if torch.is_autocast_enabled(device) is not enabled:
            torch.set_autocast_enabled(device, enabled)
