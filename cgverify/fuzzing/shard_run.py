"""Runs one shard for a pytest fuzz target, with the executor and the journal that the process keeps for all of them."""

from __future__ import annotations

import logging
from pathlib import Path

from cgverify.fuzzing.devices import DeviceName, choose_device
from cgverify.fuzzing.executor import Executor, make_executor
from cgverify.fuzzing.journal import Journal
from cgverify.fuzzing.outcome import Outcome
from cgverify.fuzzing.profiles import FOLDER, PROFILES, SHARDS
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.session import Budget, Shard
from cgverify.fuzzing.targets import Target, find_target
from cgverify.wording import counted

import pytest
import torch

_EXECUTOR = pytest.StashKey[Executor]()
_JOURNAL = pytest.StashKey[Journal]()


def run_shard(config: pytest.Config, name: str, number: int, campaign: str) -> Outcome:
    """Run one shard of a property as the options say."""
    if name not in PROPERTIES:
        choices = ", ".join(PROPERTIES)
        pytest.fail(f"fuzz({name!r}): there is no such property; choose from {choices}", pytrace=False)
    torch.set_num_threads(1)
    # The transform logs each capture that it gives up; what comes of it is judged by the results.
    logging.getLogger("cgverify").setLevel(logging.ERROR)
    profile = PROFILES[config.getoption("--cgverify-profile")]
    target = find_target(config.getoption("--cgverify-target"))
    device = _choose_device(config)
    folder = config.rootpath / FOLDER
    executor, journal = keep_executor(config), _keep_journal(config, target, device, folder)
    programs = config.getoption("--cgverify-programs") or profile.programs[name]
    seconds = config.getoption("--cgverify-seconds") or profile.seconds
    share = programs // SHARDS + (number < programs % SHARDS)
    shard = Shard(PROPERTIES[name], target, device, folder / "failures", number, campaign, executor, journal)
    shard.searching = profile.searching
    return shard.run(Budget(share, None if seconds is None else seconds * _workers(config) / SHARDS))


def keep_executor(config: pytest.Config) -> Executor:
    """Return what judges programs in this process as the options say; it is made for the first and closed at the end.

    The test fails if there is no such device.
    """
    if _EXECUTOR not in config.stash:
        target, isolation = find_target(config.getoption("--cgverify-target")), config.getoption("--cgverify-isolate")
        config.stash[_EXECUTOR] = make_executor(isolation, target, _choose_device(config))
        config.add_cleanup(config.stash[_EXECUTOR].close)
    return config.stash[_EXECUTOR]


def _choose_device(config: pytest.Config) -> DeviceName:
    name = config.getoption("--cgverify-device")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.fail("--cgverify-device cuda: torch.cuda.is_available() says no; use emulated or auto", pytrace=False)
    return choose_device(name)


def _keep_journal(config: pytest.Config, target: Target, device: DeviceName, folder: Path) -> Journal:
    """Return the journal of this process, made for its first shard and closed at its end."""
    if _JOURNAL not in config.stash:
        config.stash[_JOURNAL] = Journal(folder / "journal", target.name, device)
        config.add_cleanup(config.stash[_JOURNAL].close)
    return config.stash[_JOURNAL]


def _workers(config: pytest.Config) -> int:
    return int(getattr(config, "workerinput", {}).get("workercount", 1))


def describe_failures(outcome: Outcome) -> str:
    """Return what a failing test prints: each distinct failure with its program and how to reproduce it."""
    parts = [f"{len(outcome.failures)} distinct failure(s) in {counted(outcome.programs, 'program')}"]
    for failure in outcome.failures:
        seen = f"met {failure.count} time(s), first after {failure.seconds:g} s"
        parts.append(
            f"{failure.invariant}: {failure.evidence}\n({seen})\n\n{failure.source}\nreproduce: python {failure.script}"
        )
    return "\n\n".join(parts)
