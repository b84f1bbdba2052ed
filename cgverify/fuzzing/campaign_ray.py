"""Runs a campaign on a Ray cluster: one task for each shard, on a GPU or a CPU of its own, in a fresh process.

Ray is told not to retry: the end of a task's process is a result like any other. It is counted, the shard stays open,
and a later task goes on where it stopped. Parts come back as the tasks' results, so the machines of the cluster need
not share a disk; where they do, a task finds the parts that a killed one left, and the example that it was running.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cgverify.fuzzing.campaign import Campaign, CampaignError, Part
from cgverify.fuzzing.campaign_folder import CampaignFolder
from cgverify.fuzzing.campaign_local import name_cause
from cgverify.fuzzing.campaign_shard import CampaignWorker

import msgspec

MAX_ATTEMPTS = 5
"""Tasks that may die of one shard."""

POLL = 1.0
"""Seconds between two looks at the tasks."""


def run_on_ray(folder: CampaignFolder, address: str | None, tell: Callable[[CampaignFolder], None]) -> int:
    """Run what is left of a campaign; return how many tasks died on the way.

    Args:
        folder: the campaign.
        address: of the cluster; None for one on this machine, which is started and stopped.
        tell: called now and then.

    Raises:
        CampaignError: Ray is not installed or not there, or the tasks of one shard die again and again.
    """
    try:
        import ray
    except ImportError as error:
        raise CampaignError(f"--ray needs Ray ({error}); install it with: pip install 'cgverify[ray]'") from None
    try:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
    except ConnectionError as error:
        raise CampaignError(f"no Ray cluster at {address}: {error}; start one, or leave --ray-address out") from None
    try:
        return _run(ray, folder, tell)
    finally:
        ray.shutdown()


def _run(ray: Any, folder: CampaignFolder, tell: Callable[[CampaignFolder], None]) -> int:
    needs = {"num_gpus": 1, "num_cpus": 0} if folder.campaign.device == "cuda" else {"num_cpus": 1}
    # A fresh process for each task, and no second try behind our back.
    task = ray.remote(max_calls=1, max_retries=0, **needs)(run_shard)

    def submit(shard: int) -> Any:
        known = [msgspec.json.encode(part) for part in folder.parts() if part.unit.shard == shard]
        return task.remote(str(folder.path.resolve()), msgspec.json.encode(folder.campaign), shard, known)

    pending = {submit(shard): shard for shard in folder.find_open()}
    died = dict.fromkeys(pending.values(), 0)
    while pending:
        ready, _ = ray.wait(list(pending), timeout=POLL)
        for reference in ready:
            shard = pending.pop(reference)
            try:
                for content in ray.get(reference):
                    folder.write(msgspec.json.decode(content, type=Part))
            except ray.exceptions.RayTaskError as error:
                raise CampaignError(f"shard {shard} raises {name_cause(error.cause)}") from error
            except ray.exceptions.RayError as error:
                died[shard] += 1
                if died[shard] >= MAX_ATTEMPTS:
                    reason = str(error).strip().splitlines()[0]
                    raise CampaignError(f"{MAX_ATTEMPTS} tasks died of shard {shard}: {reason}") from error
                pending[submit(shard)] = shard
        tell(folder)
    return sum(died.values())


def run_shard(path: str, campaign: bytes, shard: int, known: list[bytes]) -> list[bytes]:
    """Run one shard and return its parts; this is what a task does.

    Args:
        path: the campaign's folder, used if it is here too.
        campaign: what is to be run.
        shard: which shard.
        known: parts of the shard that are done.
    """
    with tempfile.TemporaryDirectory(prefix="cgverify-campaign-") as temporary:
        folder = _open_here(Path(path), campaign) or _make_here(Path(temporary), campaign, known)
        worker = CampaignWorker.start(folder)
        try:
            worker.run(shard)
        finally:
            worker.close()
        return [msgspec.json.encode(part, order="sorted") for part in folder.parts() if part.unit.shard == shard]


def _open_here(path: Path, campaign: bytes) -> CampaignFolder | None:
    try:
        folder = CampaignFolder.open(path)
    except CampaignError:
        return None
    return folder if msgspec.json.encode(folder.campaign) == campaign else None


def _make_here(path: Path, campaign: bytes, known: list[bytes]) -> CampaignFolder:
    folder = CampaignFolder.create(path, msgspec.json.decode(campaign, type=Campaign))
    for content in known:
        folder.write(msgspec.json.decode(content, type=Part))
    return folder
