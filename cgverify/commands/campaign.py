"""``cgverify campaign``: long hunts in shards, on this machine or many; see docs/campaigns.md."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cgverify.commands.options import (
    CommandError,
    Device,
    DeviceOption,
    JsonOption,
    one_line_errors,
    write_json,
)
from cgverify.progress import show_progress

import typer

if TYPE_CHECKING:
    from cgverify.fuzzing.campaign import Campaign
    from cgverify.fuzzing.campaign_folder import CampaignFolder

app = typer.Typer(
    help="Run long hunts in shards, here or on many machines.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

WEIGHTS = {"equivalence": 6, "eager": 2, "gradients": 1, "end-to-end": 1, "structure": 6}
"""Share of the programs that each property gets."""

DEFAULT = ("equivalence", "eager", "gradients", "end-to-end")

MAX_JOBS = 256
"""Jobs that GitHub allows in one matrix."""

MISSING = 3
"""Exit code of a merge that lacks parts."""

FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="The campaign's folder.")]


@app.command(short_help="Run a campaign, or what is left of it.")
def run(
    folder: FolderArgument,
    name: Annotated[str, typer.Option(help="Fixes every program drawn; another name, other programs.")] = "campaign",
    target: Annotated[str, typer.Option(help="cgverify, thunder, none, or module:attribute.")] = "cgverify",
    device: DeviceOption = Device.auto,
    programs: Annotated[int, typer.Option(help="Programs that all shards together run.", min=1)] = 2000,
    seconds: Annotated[float | None, typer.Option(help="Seconds after which a shard ends.", min=0.1)] = None,
    shards: Annotated[int, typer.Option(help="Shards that the programs are cut into.", min=1)] = 8,
    property: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(WEIGHTS)}; may be repeated. All but structure if left out."),
    ] = None,
    workers: Annotated[
        str, typer.Option(help="Processes at a time; auto: GPUs times slots, or cores.", metavar="N")
    ] = "auto",
    shard: Annotated[int | None, typer.Option(help="Run this shard alone, in this process.", min=0)] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Run on Ray: a cluster on this machine, or --ray-address.")
    ] = False,
    ray_address: Annotated[str | None, typer.Option(help="Address of a Ray cluster; auto finds one here.")] = None,
) -> int:
    """Run a campaign, or what is left of it: 0 nothing fails, 1 something does."""
    from cgverify.fuzzing.campaign import Campaign, CampaignError
    from cgverify.fuzzing.campaign_folder import CampaignFolder
    from cgverify.fuzzing.devices import choose_device
    from cgverify.fuzzing.targets import TargetError, find_target

    with one_line_errors(CampaignError, TargetError):
        find_target(target)
        campaign = Campaign(
            name=name,
            target=target,
            device=choose_device(device.value),
            properties=_weigh(property or list(DEFAULT)),
            shards=shards,
            programs=programs,
            seconds=seconds,
        )
        opened = CampaignFolder.create(folder, campaign)
        died = _run(opened, workers, shard, ray or ray_address is not None, ray_address)
        if died:
            print(f"{died} processes died and were replaced")
        return _report(opened, write=True)


def _run(folder: CampaignFolder, workers: str, shard: int | None, on_ray: bool, address: str | None) -> int:
    if shard is not None:
        _run_one(folder, shard)
        return 0
    with _showing(folder) as tell:
        if on_ray:
            from cgverify.fuzzing.campaign_ray import run_on_ray

            return run_on_ray(folder, address, tell)
        from cgverify.fuzzing.campaign_local import run_locally

        return run_locally(folder, _count_workers(workers, folder.campaign), tell)


def _run_one(folder: CampaignFolder, shard: int) -> None:
    from cgverify.fuzzing.campaign_shard import CampaignWorker

    if shard >= folder.campaign.shards:
        raise CommandError(f"--shard {shard}: the campaign has {folder.campaign.shards} shards, counted from 0")
    worker = CampaignWorker.start(folder)
    try:
        with folder.claim(shard) as is_mine:
            if not is_mine:
                raise CommandError(f"shard {shard} is running in another process; let it end, or choose another shard")
            worker.run(shard)
    finally:
        worker.close()


@contextmanager
def _showing(folder: CampaignFolder) -> Iterator[Callable[[CampaignFolder], None]]:
    """Show programs done; they are counted part by part."""
    with show_progress("campaign", folder.campaign.programs, done=folder.count_programs()[0]) as progress:

        def tell(folder: CampaignFolder) -> None:
            done, failed = folder.count_programs()
            progress.advance(done - progress.done, failed=failed - progress.failed)

        yield tell


@app.command(short_help="Say how far a campaign is and what it found.")
def status(folder: FolderArgument, json_file: JsonOption = None) -> int:
    """Say how far a campaign is and what it found: 0 nothing fails, 1 something does."""
    from cgverify.fuzzing.campaign import CampaignError
    from cgverify.fuzzing.campaign_folder import CampaignFolder

    with one_line_errors(CampaignError):
        return _report(CampaignFolder.open(folder), json_file)


@app.command(short_help="Add up the folders of one campaign.")
def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders of one campaign.")],
    into: Annotated[Path, typer.Option(help="The folder that gets all parts, and merged.json.")],
    json_file: JsonOption = None,
) -> int:
    """Add up folders of one campaign, in any order and as often as you like.

    Exit code 0: nothing fails; 1: something does; 3: nothing fails, but parts are missing.
    """
    from cgverify.fuzzing.campaign import CampaignError
    from cgverify.fuzzing.campaign_folder import merge_folders
    from cgverify.fuzzing.campaign_summary import describe_gaps

    with one_line_errors(CampaignError):
        merged = merge_folders(folders, into)
        code = _report(merged, json_file, write=True)
        gaps = merged.find_gaps()
    if not gaps:
        return code
    print(f"missing: {describe_gaps(gaps)}; merge the folders that have them too, or run them", file=sys.stderr)
    return code or MISSING


@app.command(short_help="Print a GitHub matrix, a job for each shard.")
def matrix(shards: Annotated[int, typer.Option(help="How many shards the campaign has.", min=1)] = 8) -> int:
    """Print the jobs of a GitHub matrix, one for each shard."""
    if shards > MAX_JOBS:
        raise CommandError(f"--shards {shards}: GitHub runs at most {MAX_JOBS} jobs of one matrix; take fewer shards")
    print(json.dumps({"include": [{"shard": shard, "of": shards} for shard in range(shards)]}))
    return 0


def _report(folder: CampaignFolder, json_file: str | None = None, write: bool = False) -> int:
    """Print what a campaign found, and write it into its folder if asked."""
    from cgverify.fuzzing.campaign_summary import has_failed, render_merged, write_merged

    import msgspec

    merged = folder.merge()
    if write:
        write_merged(merged, folder.path)
    if json_file is not None:
        found = msgspec.to_builtins(merged)
        write_json(
            "campaign", {key: value for key, value in found.items() if key not in ("format", "version")}, json_file
        )
    if json_file != "-":
        for line in render_merged(merged, folder.path):
            print(line)
    return 1 if has_failed(merged) else 0


def _weigh(properties: list[str]) -> dict[str, int]:
    """Return the share of each property, in the order of the table."""
    for name in properties:
        if name not in WEIGHTS:
            raise CommandError(f"--property {name}: there is no such property; choose from {', '.join(WEIGHTS)}")
    return {name: weight for name, weight in WEIGHTS.items() if name in properties}


def _count_workers(workers: str, campaign: Campaign) -> int:
    from cgverify.fuzzing.profiles import count_workers

    if workers == "auto":
        return count_workers(campaign.device) or os.cpu_count() or 1
    if not workers.isdecimal() or int(workers) < 1:
        raise CommandError(f"--workers {workers}: give a number from 1 up, or auto")
    return int(workers)
