"""A region's body as it has to run, un-graphed or captured: without autocast."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Body = Callable[..., Sequence[torch.Tensor]]


def without_autocast(body: Body) -> Body:
    """The body with autocast off: Thunder made it casts of the trace already.

    The caller's setting comes back at the end. Thunder's own decorator does not do that: it brings back the setting of
    the time when the function was decorated.
    """

    def run(*args: torch.Tensor) -> Sequence[torch.Tensor]:
        enabled = [device for device in ("cuda", "cpu") if torch.is_autocast_enabled(device)]
        if not enabled:
            return body(*args)
        try:
            for device in enabled:
                torch.set_autocast_enabled(device, False)
            return body(*args)
        finally:
            for device in enabled:
                torch.set_autocast_enabled(device, True)

    return run
