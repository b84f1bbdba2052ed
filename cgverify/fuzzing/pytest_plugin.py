"""pytest options, profiles, workers and the summary of the fuzzer; loaded by pytest wherever cgverify is installed.

Nothing of torch or Thunder is imported until a test asks for it, and nothing is reported unless a fuzz target ran.
"""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cgverify.fuzzing.session import Outcome

SHARDS = 8
"""Fixed, because another number of shards would draw other programs; workers share them."""

SLOTS_PER_GPU = 3
"""Workers for each GPU under `-n auto`: small programs leave it idle most of the time."""

FOLDER = ".cgverify"
PROPERTY = "cgverify-outcome"

FLOORS = {"captured": 0.3, "finite": 0.8, "mutated": 0.1, "regions>=2": 0.02, "aliased": 0.01}
"""Least share of judged programs that must do each of these, or the run proves little and fails."""

MAX_INCOMPARABLE = 0.2
"""Largest share of programs about which nothing can be said."""

STATIC = ("mutated", "finite")
"""What a property that runs nothing cannot tell."""

GRAPHED = ("captured", "regions>=2")
"""What cannot happen without a transform."""

SHOWN = 4
"""Scripts that the summary names for each invariant, smallest programs first; the others lie beside them."""

ENOUGH = 200
"""Programs of one property from which the shares are judged."""


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
    _check_target(config.getoption("--cgverify-target"))
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    visible = [name for name in os.environ.get("CGVERIFY_GPUS", "").split(",") if name]
    if worker.startswith("gw") and visible:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible[int(worker[2:]) % len(visible)]
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
    from cgverify.fuzzing.session import PROPERTIES, Budget, Shard
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
    if not hasattr(session.config, "workerinput") and _vacuity(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what the fuzz targets did, if any ran: rates, base faults, vacuity, distinct failures."""
    outcomes = config.stash[_OUTCOMES]
    if not outcomes:
        return
    write = terminalreporter.write_line
    terminalreporter.section("cgverify")
    write(f"target {config.getoption('--cgverify-target')}, campaign {config.stash[_CAMPAIGN]}, {SHARDS} shards")
    for name in dict.fromkeys(outcome["property"] for outcome in outcomes):
        write(_summary_line(name, [outcome for outcome in outcomes if outcome["property"] == name]))
    faults = [text for outcome in outcomes for text in outcome["base_faults"]]
    if faults:
        count = sum(outcome["statuses"].get("base fault", 0) for outcome in outcomes)
        write(f"{count} base faults (Thunder without graphs differs from eager; not the target's doing), such as:")
        for text in faults[:2]:
            write("  " + text.rstrip().replace("\n", "\n  "))
    for line in _vacuity(config):
        write(f"FAILED: {line}")
    failures = {failure["key"]: failure for outcome in outcomes for failure in outcome["failures"]}
    write(f"distinct failures: {len(failures)}")
    for name, group in groupby(sorted(failures.values(), key=_by_size), key=lambda failure: failure["invariant"]):
        alike = list(group)
        write(f"  {name}: {len(alike)}")
        for failure in alike[:SHOWN]:
            write(f"    python {failure['script']}")


def _by_size(failure: dict[str, Any]) -> tuple[str, int, str]:
    return failure["invariant"], len(failure["kinds"]), failure["key"]


def _vacuity(config: pytest.Config) -> list[str]:
    return find_vacuity(config.stash[_OUTCOMES], graphs=config.getoption("--cgverify-target") != "none")


def find_vacuity(outcomes: list[dict[str, Any]], *, graphs: bool = True) -> list[str]:
    """Return what happened too rarely, one line each, over the properties that ran enough programs.

    Args:
        outcomes: what shards did, as plain data (see Outcome).
        graphs: whether there was a transform that should have captured something.
    """
    lines = []
    names = dict.fromkeys(outcome["property"] for outcome in outcomes)
    for name in names if graphs else [name for name in names if name != "structure"]:
        counts, programs = _add_up([outcome for outcome in outcomes if outcome["property"] == name])
        if programs < ENOUGH or counts["fail"]:
            continue
        judged = programs - counts["incomparable"]
        if counts["incomparable"] > MAX_INCOMPARABLE * programs:
            lines.append(f"{name}: {counts['incomparable']} of {programs} programs are incomparable")
        idle = STATIC if name == "structure" else () if graphs else GRAPHED
        floors = {what: least for what, least in FLOORS.items() if what not in idle}
        lines += [
            f"{name}: only {counts[what]} of {judged} judged programs are {what}; at least {least:.0%} should be"
            for what, least in floors.items()
            if counts[what] < least * judged
        ]
    return lines


def _add_up(outcomes: list[dict[str, Any]]) -> tuple[Counter[str], int]:
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome["statuses"])
    return counts, sum(outcome["programs"] for outcome in outcomes)


def _summary_line(name: str, outcomes: list[dict[str, Any]]) -> str:
    counts, programs = _add_up(outcomes)
    seconds = sum(outcome["seconds"] for outcome in outcomes)
    shares = ", ".join(f"{what} {100 * counts[what] / max(programs, 1):.0f} %" for what in FLOORS)
    marks = sorted(key for key in counts if key.startswith(("tier ", "eager ")))
    tiers = ", ".join(f"{mark} {counts[mark]}" for mark in marks)
    rate = programs / seconds if seconds else 0.0
    verdicts = f"{counts['ok']} ok, {counts['fail']} fail, {counts['incomparable']} incomparable"
    return f"{name}: {programs} programs, {rate:.1f} a second and core; {verdicts}; {shares}; {tiers}"
