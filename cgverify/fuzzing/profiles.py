"""How much a run of the fuzz targets does, and how many workers share it; imports neither torch nor Thunder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

FOLDER = ".cgverify"
"""Where failures and journals go, below pytest's root folder."""

SHARDS = 8
"""Fixed, because another number of shards would draw other programs; workers share them."""

SLOTS_PER_GPU = 3
"""Workers for each GPU under `-n auto`: small programs leave it idle most of the time."""


@dataclass(frozen=True)
class Profile:
    """How much a run does.

    Attributes:
        programs: how many each fuzz target draws, all shards together.
        campaign: with a fixed name, the same programs every time; empty for new ones in each run.
        seconds: how long each fuzz target may take, all shards together, in worker time; None for no limit.
        searching: whether programs are also searched for, see :mod:`cgverify.fuzzing.steering`.
    """

    programs: dict[str, int]
    campaign: str
    seconds: float | None = None
    searching: bool = False


_GATE = {"structure": 2000, "equivalence": 1400, "eager": 800, "gradients": 100, "end-to-end": 100}
PROFILES = {
    "gate": Profile(_GATE, "gate"),
    "dev": Profile(_GATE, ""),
    "nightly": Profile({name: 40 * count for name, count in _GATE.items()}, "", searching=True),
}


def find_gpus() -> list[str]:
    """Return the names of the GPUs that this process may use, without importing torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name]
    folder = Path("/proc/driver/nvidia/gpus")
    return [str(number) for number, _ in enumerate(folder.iterdir())] if folder.is_dir() else []


def count_workers(device: str) -> int | None:
    """Return how many workers `auto` stands for: GPUs times slots where programs run on GPUs.

    Where they do not, None: pytest-xdist then takes the cores, and so does a campaign.
    """
    gpus = [] if device == "emulated" else find_gpus()
    return min(len(gpus) * SLOTS_PER_GPU, os.cpu_count() or 1) if gpus else None
