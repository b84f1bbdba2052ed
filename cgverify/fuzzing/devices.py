"""Where programs run: a real CUDA device, or the emulation of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from cgverify.emulation import EmulatedCUDA

import torch

DeviceName = Literal["cuda", "emulated"]


def choose_device(name: str) -> DeviceName:
    """Return what `auto`, `emulated` or `cuda` stands for on this machine."""
    if name == "emulated":
        return "emulated"
    return "cuda" if name == "cuda" or torch.cuda.is_available() else "emulated"


@contextmanager
def open_device(name: DeviceName) -> Iterator[Counters]:
    """Make `device="cuda"` mean the device for one program, and count what it does.

    The emulation starts empty each time, and fills new and freed memory with NaNs. Its strict mode is not used: a
    caller may give a parameter new storage at an address that was freed since the capture, and reading that is right.
    A real device is shared.
    """
    counters = Counters()
    if name == "cuda":
        yield counters
        if find_damage():
            _repair()
        return
    with EmulatedCUDA(poison=True) as device:
        counters.read_from(device)
        yield counters


class Counters:
    """Counts captured launches and replays where the device can tell; a real one cannot, and answers None."""

    def __init__(self) -> None:
        self._device: EmulatedCUDA | None = None

    def read_from(self, device: EmulatedCUDA) -> None:
        """Take the counts from an emulated device."""
        self._device = device

    @property
    def replays(self) -> int | None:
        """The number of replays so far."""
        return None if self._device is None else self._device.stats["replays"]


def _repair() -> None:
    """Bring a real device's generator back to use after a capture that failed: one that succeeds does it."""
    torch.cuda.synchronize()
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda")


SETTINGS: tuple[tuple[str, Callable[[], Any], Callable[[Any], object]], ...] = (
    ("autograd is on", torch.is_grad_enabled, torch.set_grad_enabled),
    ("autocast is on", lambda: torch.is_autocast_enabled("cuda"), lambda on: torch.set_autocast_enabled("cuda", on)),
    ("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
    ("the current stream", lambda: torch.cuda.current_stream(), lambda stream: torch.cuda.set_stream(stream)),
    ("determinism is asked for", torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
)
"""Settings of the process on which results depend, each with how it is read and written."""


@contextmanager
def settings_kept() -> Iterator[Callable[[], str]]:
    """Put the settings of the process back after the block; what is given says which one it has changed, or nothing."""
    before = [read() for _, read, _ in SETTINGS]

    def describe_change() -> str:
        changes = ((what, old, read()) for (what, read, _), old in zip(SETTINGS, before, strict=True))
        return next((f"{what}: {new} instead of {old}" for what, old, new in changes if new != old), "")

    try:
        yield describe_change
    finally:
        for (_, read, write), old in zip(SETTINGS, before, strict=True):
            if read() != old:
                write(old)


def find_damage() -> str:
    """Say what keeps the process from drawing random numbers on its default stream; empty if nothing does."""
    try:
        if torch.cuda.is_current_stream_capturing():
            return "the current stream is still capturing"
        torch.randn(1, device="cuda")
    except Exception as error:  # whatever a damaged process raises here is the answer
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""
