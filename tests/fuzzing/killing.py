"""Kills workers, templates and children of a campaign at random, and says whether every example was run again.

`python -m tests.fuzzing.killing [PROGRAMS] [SECONDS BETWEEN KILLS] [WORKERS]`: 1,000, 5 and 2 by default. A process
is stopped, then the journal says what it is running, then it is killed with `kill -9`; so what has to be run again is
known from outside. At the end every such example has to be among the recovered ones, and the campaign's totals have
to be those of the same campaign run in peace.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from cgverify.fuzzing.campaign import Campaign, Totals
from cgverify.fuzzing.campaign_folder import CampaignFolder
from cgverify.fuzzing.campaign_local import run_locally
from cgverify.fuzzing.journal import find_unfinished
from cgverify.fuzzing.program import decode_program
from cgverify.fuzzing.rendering import render_source
from cgverify.fuzzing.resolution import resolve_program

STOPPING = 5.0
"""Seconds within which a process has to obey SIGSTOP."""


@dataclass
class Killed:
    """What was killed.

    Attributes:
        workers: how many workers.
        others: how many templates and children.
        running: the programs, as Python, that killed workers were running.
    """

    workers: int = 0
    others: int = 0
    running: list[str] = field(default_factory=list)


def read_tree(root: int) -> dict[int, int]:
    """Return the processes below a process, and how deep each lies, by /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    depths = {root: 0}
    for _ in range(4):
        for pid, parent in parents.items():
            if parent in depths:
                depths[pid] = depths[parent] + 1
    del depths[root]
    return depths


def read_state(pid: int) -> str:
    """Return the state of a process, such as R, S, T or Z; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def stop_and_look(pid: int, journal: Path) -> list[str]:
    """Stop a worker, and return the programs, as Python, that it is running."""
    os.kill(pid, signal.SIGSTOP)
    late = time.monotonic() + STOPPING
    while read_state(pid) not in ("T", "Z", "") and time.monotonic() < late:
        time.sleep(0.001)
    lines = [line for path in journal.glob(f"{pid}-*.jsonl") for line in find_unfinished(path.read_bytes())]
    return [render_source(resolve_program(decode_program(line.program))) for line in lines]


def kill_at_random(folder: CampaignFolder, pause: float, stop: threading.Event, killed: Killed) -> None:
    """Kill one process after the other until `stop` is set."""
    chance = random.Random(0)
    while not stop.wait(chance.expovariate(1 / pause)):
        tree = read_tree(os.getpid())
        victims = [pid for pid in sorted(tree) if list((folder.path / "journal").glob(f"{pid}-*.jsonl"))]
        below = [pid for pid in sorted(tree) if tree[pid] > 1]
        try:
            if victims and chance.random() < 0.5:
                victim = chance.choice(victims)
                killed.running += stop_and_look(victim, folder.path / "journal")
                killed.workers += 1
                os.kill(victim, signal.SIGKILL)
            elif below:
                os.kill(chance.choice(below), signal.SIGKILL)
                killed.others += 1
        except ProcessLookupError:
            continue


def run_and_kill(campaign: Campaign, path: Path, pause: float, workers: int) -> tuple[Totals, Killed, list[str]]:
    """Run a campaign while processes are killed; return its totals, what was killed, and what was not run again."""
    folder = CampaignFolder.create(path, campaign)
    stop, killed = threading.Event(), Killed()
    killer = threading.Thread(target=kill_at_random, args=(folder, pause, stop, killed))
    killer.start()
    try:
        run_locally(folder, workers, lambda folder: None)
    finally:
        stop.set()
        killer.join()
    again = {entry.source for entry in folder.recovered() if entry.cause == "process"}
    return folder.merge().totals, killed, [source for source in killed.running if source not in again]


def main(programs: int = 1000, pause: float = 5.0, workers: int = 2) -> int:
    """Print what happened; 0 if nothing was lost."""
    properties = {"equivalence": 8, "gradients": 1}
    campaign = Campaign(name="killing", properties=properties, shards=8, programs=programs)
    with tempfile.TemporaryDirectory() as folder:
        disturbed, killed, lost = run_and_kill(campaign, Path(folder) / "disturbed", pause, workers)
        print(f"{disturbed.programs} programs; killed {killed.workers} workers, {killed.others} templates and children")
        print(f"{len(killed.running)} examples were running in killed workers; {len(lost)} of them were not run again")
        peaceful = CampaignFolder.create(Path(folder) / "peaceful", campaign)
        run_locally(peaceful, workers, lambda folder: None)
        same = disturbed == peaceful.merge().totals
    print(f"the totals are {'those' if same else 'NOT those'} of the same campaign in peace")
    return 1 if lost or not same or disturbed.programs < programs else 0


if __name__ == "__main__":
    sys.exit(main(*(kind(text) for kind, text in zip((int, float, int), sys.argv[1:], strict=False))))
