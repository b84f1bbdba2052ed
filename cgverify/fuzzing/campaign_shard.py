"""Runs one shard of a campaign, part by part, going on where an earlier process stopped.

A part is a function of its unit and of the parts before it in its shard and property: what they found is known. So
nothing in it depends on time: reductions end by their number of attempts.
"""

from __future__ import annotations

import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import cgverify
from cgverify.fuzzing.campaign import PART, Found, Measured, Part, Unit
from cgverify.fuzzing.campaign_folder import CampaignFolder
from cgverify.fuzzing.campaign_merging import choose_parts
from cgverify.fuzzing.devices import DeviceName, choose_device
from cgverify.fuzzing.executor import Executor, Isolated
from cgverify.fuzzing.findings import Effort, Findings
from cgverify.fuzzing.journal import Journal
from cgverify.fuzzing.outcome import Failure, Outcome
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.session import Shard
from cgverify.fuzzing.targets import Target, find_target

import torch

EFFORT = Effort(attempts=300, seconds=None)
"""How far a campaign goes into failures: as far on a busy machine as on an idle one."""

GPUS = Path("/proc/driver/nvidia/gpus")


@dataclass
class CampaignWorker:
    """A process that runs shards of a campaign, with one executor and one journal for all of them.

    Attributes:
        folder: the campaign.
        target: the transform under test.
        device: where programs run.
        executor: judges programs.
        journal: where they are recorded before they run.
    """

    folder: CampaignFolder
    target: Target
    device: DeviceName
    executor: Executor
    journal: Journal

    @classmethod
    def start(cls, folder: CampaignFolder) -> CampaignWorker:
        """Make the worker of this process."""
        torch.set_num_threads(1)
        campaign = folder.campaign
        target, device = find_target(campaign.target), choose_device(campaign.device)
        executor = Isolated(campaign.target, device).start()
        return cls(folder, target, device, executor, Journal(folder.path / "journal", campaign.target, device))

    def close(self) -> None:
        """End what the worker started."""
        self.executor.close()
        self.journal.close()

    def run_open(self) -> None:
        """Run every shard that has something left and that no other process runs."""
        for shard in self.folder.find_open():
            with self.folder.claim(shard) as is_mine:
                if is_mine:
                    self.run(shard)

    def run(self, number: int) -> None:
        """Run what is missing of a shard."""
        missing = set(self.folder.find_missing(number))
        done = choose_parts(part for part in self.folder.parts() if part.unit.shard == number)
        used = sum(part.measured.seconds for part in done.values())
        for name in self.folder.campaign.properties:
            findings = Findings(PROPERTIES[name], self.target, self.executor, self.folder.path / "failures", EFFORT)
            for unit in sorted({unit for unit in (*done, *missing) if unit.property == name}):
                if unit in done:
                    findings.failures += [_known(found) for found in done[unit].failures]
                    continue
                part = self._run_part(unit, findings, used)
                self.folder.write(part)
                used += part.measured.seconds
                if part.cut:
                    return

    def _run_part(self, unit: Unit, findings: Findings, used: float) -> Part:
        campaign = self.folder.campaign
        shard = Shard(
            PROPERTIES[unit.property],
            self.target,
            self.device,
            findings.folder,
            unit.shard,
            campaign.name,
            self.executor,
            self.journal,
            EFFORT,
            self.folder.write_recovered,
        )
        met = {failure.key: failure.count for failure in findings.failures}
        begun, clock = time.time(), time.monotonic()
        shard.begin(None if campaign.seconds is None else campaign.seconds - used, findings)
        shard.recover(look_into=False)
        count = min(PART, campaign.share(unit.property, unit.shard) - PART * unit.part)
        shard.draw(count, unit.part)
        outcome = shard.end()
        return Part(
            campaign=campaign.id,
            unit=unit,
            programs=outcome.programs,
            cut=shard.is_late(),
            hashes=outcome.hashes,
            statuses=dict(sorted(outcome.statuses.items())),
            coverage=outcome.coverage,
            failures=tuple(_found(failure) for failure in outcome.failures if failure.key not in met),
            met={f.key: f.count - met.get(f.key, 0) for f in outcome.failures if f.count > met.get(f.key, 0)},
            base_faults=tuple(outcome.base_faults),
            measured=self._measure(begun, time.monotonic() - clock, outcome),
        )

    def _measure(self, begun: float, seconds: float, outcome: Outcome) -> Measured:
        return Measured(
            begun=round(begun, 3),
            seconds=round(seconds, 3),
            judging=round(outcome.seconds, 3),
            host=platform.node(),
            device=name_device(self.device),
            versions=find_versions(),
            children=outcome.children,
        )


def name_device(device: DeviceName) -> str:
    """Return the name of the GPU as its driver gives it, without using it, or `emulated`."""
    if device == "emulated":
        return device
    texts = [file.read_text(errors="replace") for file in sorted(GPUS.glob("*/information"))]
    lines = [line for text in texts for line in text.splitlines() if line.startswith("Model")]
    return lines[0].partition(":")[2].strip() if lines else "cuda"


def find_versions() -> dict[str, str]:
    """Return the versions of what takes part."""
    packages = {"torch": version("torch"), "thunder": version("lightning-thunder")}
    return {"cgverify": cgverify.__version__, "python": platform.python_version(), **packages}


def _found(failure: Failure) -> Found:
    script = Path(failure.script)
    return Found(
        key=failure.key,
        invariant=failure.invariant,
        kinds=failure.kinds,
        evidence=failure.evidence,
        source=failure.source,
        program=script.with_suffix(".json").read_text(encoding="utf-8"),
        script=script.read_text(encoding="utf-8"),
    )


def _known(found: Found) -> Failure:
    return Failure(found.key, found.invariant, found.kinds, found.evidence, found.source, "", 0.0, 0)
