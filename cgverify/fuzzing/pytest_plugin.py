"""pytest options, profiles, workers and the summary of the fuzzer; loaded by pytest wherever cgverify is installed.

Nothing of torch or Thunder is imported until a test asks for it, and nothing is reported unless a fuzz target ran.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cgverify.fuzzing.profiles import FOLDER, PROFILES, SHARDS, count_workers, find_gpus
from cgverify.fuzzing.summary import find_vacuity, render_summary
from cgverify.fuzzing.target_files import has_fuzz_targets

import pytest

if TYPE_CHECKING:
    from cgverify.fuzzing.outcome import Outcome

PROPERTY = "cgverify-outcome"


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
        "--cgverify-isolate",
        default="auto",
        choices=("auto", "always", "never"),
        help="run programs in a child process, so that a crash or a hang is a verdict: where the system can fork "
        "(default), or an error where it cannot, or never",
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
    """Under `-n auto`: GPUs times slots where fuzz targets run on GPUs, else pytest-xdist's own answer."""
    workers = count_workers(config.getoption("--cgverify-device"))
    if workers is None or not _is_fuzzing(config):
        return None
    os.environ["CGVERIFY_GPUS"] = ",".join(find_gpus())
    return workers


def _is_fuzzing(config: pytest.Config) -> bool:
    """Whether the command line has an option of the fuzzer's, or names files or folders with fuzz targets."""
    start = config.invocation_params.dir
    given = any(str(argument).startswith("--cgverify-") for argument in config.invocation_params.args)
    places = [start / argument.partition("::")[0] for argument in config.args]
    return given or has_fuzz_targets(places, config.getini("python_files"), config.getini("norecursedirs"))


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
        from cgverify.fuzzing.shard_run import describe_failures, run_shard

        import msgspec

        outcome = run_shard(request.config, name, shard, _campaign(request.config))
        record_property(PROPERTY, msgspec.json.encode(outcome).decode())
        if outcome.failures:
            pytest.fail(describe_failures(outcome), pytrace=False)
        return outcome

    return run


def _campaign(config: pytest.Config) -> str:
    """Return the campaign's name: in an xdist worker, the main process's."""
    name: str = getattr(config, "workerinput", {}).get("cgverify-campaign") or config.stash[_CAMPAIGN]
    return name


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


class _Collector:
    """Collects what shards did, from their reports: in the main process they arrive from every worker."""

    def __init__(self, config: pytest.Config) -> None:
        self.outcomes = config.stash[_OUTCOMES]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome that a shard left in its report."""
        if report.when == "call":
            self.outcomes += [json.loads(str(text)) for key, text in report.user_properties if key == PROPERTY]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which too little happened to prove anything; note its totals for the JUnit file."""
    if hasattr(session.config, "workerinput") or not session.config.stash[_OUTCOMES]:
        return
    if session.exitstatus == pytest.ExitCode.OK and _is_vacuous(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    _record_totals(session.config)


def _record_totals(config: pytest.Config) -> None:
    from cgverify.fuzzing.devices import choose_device
    from cgverify.fuzzing.junit import compute_totals, record_totals

    device, target = choose_device(config.getoption("--cgverify-device")), config.getoption("--cgverify-target")
    totals = compute_totals(config.stash[_OUTCOMES], target=target, device=device, campaign=config.stash[_CAMPAIGN])
    record_totals(config, totals)


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
    from cgverify.fuzzing.journal import count_waiting
    from cgverify.wording import counted

    if waiting := count_waiting(config.rootpath / FOLDER / "journal"):
        terminalreporter.write_line(
            f"of runs that ended early {counted(waiting, 'program')} left for a run with their target and device"
        )


def _is_vacuous(config: pytest.Config) -> bool:
    graphs = config.getoption("--cgverify-target") != "none"
    return bool(find_vacuity(config.stash[_OUTCOMES], graphs=graphs))
