"""Where programs run: a real CUDA device, or the emulation of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

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


def find_damage() -> str:
    """Say what keeps the process from drawing random numbers on its default stream; empty if nothing does."""
    try:
        if torch.cuda.is_current_stream_capturing():
            return "the current stream is still capturing"
        torch.randn(1, device="cuda")
    except Exception as error:  # whatever a damaged process raises here is the answer
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""
