"""The emulated device in force: at most one in the process, since it patches torch itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA

_active: EmulatedCUDA | None = None


def active() -> EmulatedCUDA:
    """Return the emulated device in force; raises RuntimeError if there is none."""
    if _active is None:
        raise RuntimeError("no EmulatedCUDA is active: use emulated streams, events and graphs inside its `with` block")
    return _active


def in_force() -> EmulatedCUDA | None:
    """Return the emulated device in force, None if there is none."""
    return _active


def activate(cuda: EmulatedCUDA) -> None:
    """Put a device in force; raises RuntimeError if one is."""
    global _active
    if _active is not None:
        raise RuntimeError(
            "an EmulatedCUDA is active already: leave it before entering another, or, in another thread, enter "
            "`with cuda.in_thread():` on the one that is active"
        )
    _active = cuda


def deactivate() -> None:
    """Take the device out of force."""
    global _active
    _active = None
