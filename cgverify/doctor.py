"""Examines this machine: which parts of cgverify work here, and what to do about those that do not."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

__all__ = ["Finding", "examine"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination.

    Attributes:
        part: what was examined.
        works: whether it does; None where it is merely absent and not needed.
        found: versions and names, or the error and its remedy.
    """

    part: str
    works: bool | None
    found: str


def examine() -> Iterator[Finding]:
    """Try each part in the order in which they need each other; a part that fails does not stop the next."""
    for part, attempt in _ATTEMPTS.items():
        try:
            yield attempt()
        except Exception as error:
            yield Finding(part, False, f"{type(error).__name__}: {error}".splitlines()[0])


def _python() -> Finding:
    supported = (3, 10) <= sys.version_info[:2] < (3, 14)
    remedy = "" if supported else "; cgverify needs Python >=3.10,<3.14"
    return Finding("Python", supported, f"{platform.python_version()} on {platform.platform()}{remedy}")


def _torch() -> Finding:
    import torch

    built_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"
    return Finding("PyTorch", True, f"{torch.__version__}, {built_for}, {torch.get_num_threads()} threads")


def _thunder() -> Finding:
    import thunder
    import torch

    doubled = thunder.jit(lambda x: x + x)(torch.ones(2))
    executors = ", ".join(executor.name for executor in thunder.get_default_executors())
    return Finding("Thunder", doubled.tolist() == [2.0, 2.0], f"{metadata.version('lightning-thunder')}, {executors}")


def _gpu() -> Finding:
    import torch

    if not torch.cuda.is_available():
        return Finding("GPU", None, "none: the emulation is used in its place")
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return Finding("GPU", _graph_replays(), names)


def _emulation() -> Finding:
    from cgverify.emulation import EmulatedCUDA

    with EmulatedCUDA():
        return Finding("emulation", _graph_replays(), "CUDA graphs on the CPU")


def _graph_replays() -> bool:
    """Capture x * 2, replay it on a new value of x, and look at the result."""
    import torch

    x = torch.ones(4, device="cuda")
    y = x * 2  # warm-up
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 2
    x.fill_(3)
    graph.replay()
    return bool(y.cpu().tolist() == [6.0] * 4)


def _transform() -> Finding:
    """A function of two regions, proved, captured and replayed on the device that everything uses by default."""
    from cgverify.api import CUDAGraphTransform
    from cgverify.checking import open_device

    import thunder
    import torch

    def scale(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * x.sum().item()

    with open_device("auto") as device:
        transform = CUDAGraphTransform()
        jitted = thunder.jit(scale, transforms=[transform])
        results = [jitted(torch.ones(2, device="cuda") * k).tolist() for k in (1.0, 2.0, 3.0)]
    right = results == [[2.0, 2.0], [8.0, 8.0], [18.0, 18.0]] and transform.stats().replays > 0
    return Finding("transform", right, f"proves, captures and replays: {_WHERE[device]}")


def _fuzzing() -> Finding:
    from cgverify.fuzzing.devices import choose_device
    from cgverify.fuzzing.profiles import count_workers

    workers = count_workers("auto") or os.cpu_count() or 1
    return Finding("fuzzing", True, f"pytest -n auto fuzz/ uses {workers} processes: {_WHERE[choose_device('auto')]}")


def _entries() -> Finding:
    """Which of Thunder's entry points work with these versions; that is Thunder's affair, so none is required."""
    from cgverify.thunder_compat import has_thunderfx

    from thunder.extend import get_executor

    fuser = "" if get_executor("nvfuser") else ' with recipe=BaseRecipe(fuser="torch.compile"), as nvFuser is missing'
    fx = "thunderfx" if has_thunderfx() else "not thunderfx, which needs PyTorch 2.11"
    return Finding("entry points", True, f"thunder.jit; thunder.compile{fuser}; {fx}")


def _extras() -> Finding:
    missing = {extra: [name for name in names if find_spec(name) is None] for extra, names in _EXTRAS.items()}
    parts = [f"{extra}: " + (f"no {', '.join(names)}" if names else "yes") for extra, names in missing.items()]
    remedy = "; pip install -e '.[EXTRA]' in the clone" if any(missing.values()) else ""
    return Finding("extras", None if any(missing.values()) else True, "; ".join(parts) + remedy)


_WHERE = {"cuda": "on the GPU", "emulated": "on the emulation"}

_EXTRAS = {
    "report (pages, plots)": ("jinja2", "matplotlib"),
    "ray (campaigns on a cluster)": ("ray",),
    "dev (checks of a change)": ("mypy", "ruff", "mkdocs"),
}
"""Extra and what it is for -> modules that it brings."""


def _plugin() -> Finding:
    registered = [point for point in metadata.entry_points(group="pytest11") if point.name == "cgverify"]
    for point in registered:
        point.load()
    found = (
        registered[0].value if registered else "not registered: pip install -e . in the clone, then run pytest again"
    )
    return Finding("pytest plugin", bool(registered), found)


_ATTEMPTS: dict[str, Callable[[], Finding]] = {
    "Python": _python,
    "PyTorch": _torch,
    "Thunder": _thunder,
    "GPU": _gpu,
    "emulation": _emulation,
    "transform": _transform,
    "pytest plugin": _plugin,
    "fuzzing": _fuzzing,
    "entry points": _entries,
    "extras": _extras,
}
