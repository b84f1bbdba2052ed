"""pytest options, profiles, workers and the summary of the fuzzer; loaded by pytest wherever cgverify is installed.

Nothing of torch or Thunder is imported until a test asks for it, and nothing is reported unless a fuzz target ran.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgverify.fuzzing.summary import find_vacuity, render_summary

import pytest

if TYPE_CHECKING:
    from cgverify.fuzzing.outcome import Outcome

SHARDS = 8
"""Fixed, because another number of shards would draw other programs; workers share them."""

SLOTS_PER_GPU = 3
"""Workers for each GPU under `-n auto`: small programs leave it idle most of the time."""

FOLDER = ".cgverify"
PROPERTY = "cgverify-outcome"


@dataclass(frozen=True)
class Profile:
    """How much a run does.

    Attributes:
        programs: how many each fuzz target draws, all shards together.
        campaign: with a fixed name, the same programs every time; empty for new ones in each run.
        seconds: how long each fuzz target may take, all shards together, in worker time; None for no limit.
    """

    programs: dict[str, int]
    campaign: str
    seconds: float | None = None


_GATE = {"structure": 2000, "equivalence": 1400, "eager": 800, "gradients": 100, "end-to-end": 100}
PROFILES = {
    "gate": Profile(_GATE, "gate"),
    "dev": Profile(_GATE, ""),
    "nightly": Profile({name: 40 * count for name, count in _GATE.items()}, ""),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fuzzer."""
    group = parser.getgroup("cgverify", "fuzzing Thunder transforms")
    group.addoption(
        "--cgverify-target",
        default="cgverify",
        metavar="TARGET",
        help="transform under test: cgverify (default), thunder, none, or module:attr",
    )
    group.addoption(
        "--cgverify-device",
        default="auto",
        choices=("auto", "emulated", "cuda"),
        help="where programs run: a GPU if there is one (default), the emulation, or a GPU and nothing else",
    )
    group.addoption(
        "--cgverify-programs", type=int, metavar="N", help="programs that each fuzz target draws; default by profile"
    )
    group.addoption(
        "--cgverify-seconds", type=float, metavar="S", help="seconds that each fuzz target may take; default by profile"
    )
    group.addoption(
        "--cgverify-profile",
        default="gate" if os.environ.get("CI") else "dev",
        choices=tuple(PROFILES),
        help="gate: the same programs each time, no database; dev (default); nightly: many more",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Check the options, and choose this worker's GPU before torch is imported."""
    for name in ("programs", "seconds"):
        value = config.getoption(f"--cgverify-{name}")
        if value is not None and value <= 0:
            raise pytest.UsageError(
                f"--cgverify-{name}={value:g} must be more than 0; leave it out for the profile's own"
            )
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    visible = [name for name in os.environ.get("CGVERIFY_GPUS", "").split(",") if name]
    if worker.startswith("gw") and visible:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[int(worker[2:]) % len(visible)]
    _check_target(config.getoption("--cgverify-target"))
    config.stash[_OUTCOMES] = []
    config.pluginmanager.register(_Collector(config), "cgverify-collector")
    if hasattr(config, "workerinput"):
        return
    config.stash[_CAMPAIGN] = PROFILES[config.getoption("--cgverify-profile")].campaign or os.urandom(4).hex()


_CAMPAIGN = pytest.StashKey[str]()
_OUTCOMES = pytest.StashKey[list[dict[str, Any]]]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell each xdist worker which campaign it belongs to: all draw different shards of one stream."""
    node.workerinput["cgverify-campaign"] = node.config.stash[_CAMPAIGN]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Under `-n auto`: GPUs times slots where programs run on GPUs, else pytest-xdist's own answer."""
    if config.getoption("--cgverify-device") == "emulated":
        return None
    gpus = _visible_gpus()
    if not gpus:
        return None
    os.environ["CGVERIFY_GPUS"] = ",".join(gpus)
    return min(len(gpus) * SLOTS_PER_GPU, os.cpu_count() or 1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Split every test that asks for a `shard` into the fixed number of shards."""
    if "shard" in metafunc.fixturenames:
        metafunc.parametrize("shard", range(SHARDS))


@pytest.fixture
def cuda(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Give a CUDA device for one test: the real one, else an emulated one (its EmulatedCUDA; None for a real one)."""
    from cgverify.emulation import EmulatedCUDA
    from cgverify.fuzzing.devices import choose_device

    if choose_device(request.config.getoption("--cgverify-device")) == "cuda":
        yield None
        return
    with EmulatedCUDA() as device:
        yield device


@pytest.fixture
def assert_verified() -> Any:
    """Give the function that asserts that a rewrite is proved: `assert_verified(before, after)`."""
    import cgverify

    return cgverify.assert_verified


@pytest.fixture
def fuzz(request: pytest.FixtureRequest, record_property: Any) -> Any:
    """Give the function that runs one shard of a property: `fuzz("equivalence", shard)`."""

    def run(name: str, shard: int) -> Outcome:
        outcome = _run_shard(request.config, name, shard)
        import msgspec

        record_property(PROPERTY, msgspec.json.encode(outcome).decode())
        if outcome.failures:
            pytest.fail(_describe_failures(outcome), pytrace=False)
        return outcome

    return run


def _run_shard(config: pytest.Config, name: str, number: int) -> Outcome:
    from cgverify.fuzzing.devices import choose_device
    from cgverify.fuzzing.properties import PROPERTIES
    from cgverify.fuzzing.session import Budget, Shard
    from cgverify.fuzzing.targets import find_target

    import torch

    torch.set_num_threads(1)
    # The transform logs each capture that it gives up; what comes of it is judged by the results.
    logging.getLogger("cgverify").setLevel(logging.ERROR)
    profile = PROFILES[config.getoption("--cgverify-profile")]
    device = choose_device(config.getoption("--cgverify-device"))
    if device == "cuda" and not torch.cuda.is_available():
        pytest.fail("--cgverify-device cuda: torch.cuda.is_available() says no; use emulated or auto", pytrace=False)
    folder = config.rootpath / FOLDER
    programs = config.getoption("--cgverify-programs") or profile.programs[name]
    seconds = config.getoption("--cgverify-seconds") or profile.seconds
    share = programs // SHARDS + (number < programs % SHARDS)
    campaign = getattr(config, "workerinput", {}).get("cgverify-campaign") or config.stash[_CAMPAIGN]
    target = find_target(config.getoption("--cgverify-target"))
    shard = Shard(PROPERTIES[name], target, device, folder / "failures", number, campaign)
    return shard.run(Budget(share, None if seconds is None else seconds * _workers(config) / SHARDS))


def _workers(config: pytest.Config) -> int:
    return int(getattr(config, "workerinput", {}).get("workercount", 1))


def _check_target(name: str) -> None:
    """Refuse an unknown target before anything runs; what a name means is looked up without importing it."""
    module, colon, attribute = name.partition(":")
    if name not in ("cgverify", "thunder", "none") and not (module and colon and attribute):
        raise pytest.UsageError(
            f"--cgverify-target={name!r} is no target; choose cgverify, thunder, none, or module:attr for a Transform"
        )
    if colon:
        from cgverify.fuzzing.targets import TargetError, find_target

        try:
            find_target(name)
        except TargetError as error:
            raise pytest.UsageError(f"--cgverify-target: {error}") from None


def _visible_gpus() -> list[str]:
    """Return the names of the GPUs that this process may use, without importing torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name for name in visible.split(",") if name]
    folder = Path("/proc/driver/nvidia/gpus")
    return [str(number) for number, _ in enumerate(folder.iterdir())] if folder.is_dir() else []


def _describe_failures(outcome: Outcome) -> str:
    parts = [f"{len(outcome.failures)} distinct failure(s) in {outcome.programs} programs"]
    for failure in outcome.failures:
        seen = f"met {failure.count} time(s), first after {failure.seconds:g} s"
        parts.append(
            f"{failure.invariant}: {failure.evidence}\n({seen})\n\n{failure.source}\nreproduce: python {failure.script}"
        )
    return "\n\n".join(parts)


class _Collector:
    """Collects what shards did, from their reports: in the main process they arrive from every worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.outcomes = config.stash[_OUTCOMES]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome that a shard left in its report."""
        if report.when == "call":
            self.outcomes += [json.loads(str(text)) for key, text in report.user_properties if key == PROPERTY]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which too little happened for it to prove anything."""
    if not hasattr(session.config, "workerinput") and _is_vacuous(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what the fuzz targets did, if any ran."""
    outcomes = config.stash[_OUTCOMES]
    if not outcomes:
        return
    target, campaign = config.getoption("--cgverify-target"), config.stash[_CAMPAIGN]
    terminalreporter.section("cgverify")
    terminalreporter.write_line(f"target {target}, campaign {campaign}, {SHARDS} shards")
    for line in render_summary(outcomes, graphs=target != "none"):
        terminalreporter.write_line(line)


def _is_vacuous(config: pytest.Config) -> bool:
    graphs = config.getoption("--cgverify-target") != "none"
    return bool(find_vacuity(config.stash[_OUTCOMES], graphs=graphs))
