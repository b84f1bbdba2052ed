"""Runs a campaign on local processes, and replaces those that die; `python -m cgverify.fuzzing.campaign_local FOLDER`
is one of them.

Workers share nothing but the folder: each takes the next shard that is open and not claimed, and its claim ends with
it. So a worker can be killed at any time, and a campaign can be joined from another terminal or another machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cgverify.fuzzing.campaign import CampaignError
from cgverify.fuzzing.campaign_folder import CampaignFolder
from cgverify.fuzzing.journal import ERRORS
from cgverify.fuzzing.lifeline import die_with_parent
from cgverify.fuzzing.profiles import find_gpus

POLL = 0.5
"""Seconds between two looks at the workers."""

MAX_FRUITLESS = ERRORS + 1
"""Workers that may fail in a row with nothing to show for it: one more than a program may end until it is given up."""

MAX_KILLED = 100
"""The same for workers that somebody kills: a program cannot, it runs in a child."""


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    slot: int
    log: IO[bytes]


def run_locally(folder: CampaignFolder, workers: int, tell: Callable[[CampaignFolder], None]) -> int:
    """Run what is left of a campaign; return how many workers died on the way.

    Args:
        folder: the campaign.
        workers: how many processes at a time.
        tell: called now and then.

    Raises:
        CampaignError: workers end one after the other without getting anything done.
    """
    running: list[_Worker] = []
    dead = before = 0
    fruitless: list[int] = []
    try:
        while True:
            for worker in [worker for worker in running if worker.process.poll() is not None]:
                running.remove(worker)
                dead += worker.process.returncode != 0
                if (done := folder.count_done() + len(folder.recovered())) > before:
                    fruitless.clear()
                before = done
                _check_fruitless(fruitless, worker)
                worker.log.close()
            open_shards = folder.find_open()
            if not open_shards and not running:
                return dead
            # A shard that is claimed, by another terminal's worker perhaps, is nothing to start one for.
            wanted = min(workers, len(open_shards)) - len(running)
            free = sum(map(folder.is_free, open_shards)) if wanted > 0 else 0
            for _ in range(min(wanted, free)):
                taken = {worker.slot for worker in running}
                running.append(_start(folder, next(slot for slot in range(workers) if slot not in taken)))
            tell(folder)
            time.sleep(POLL)
    finally:
        for worker in running:
            worker.process.kill()
            worker.process.wait()
            worker.log.close()


def _start(folder: CampaignFolder, slot: int) -> _Worker:
    environment = dict(os.environ)
    gpus = find_gpus() if folder.campaign.device == "cuda" else []
    if gpus:
        environment["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    log = tempfile.TemporaryFile("a+b", prefix="cgverify-worker-")  # noqa: SIM115
    command = [sys.executable, "-m", "cgverify.fuzzing.campaign_local", str(folder.path)]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    return _Worker(process, slot, log)


def _check_fruitless(fruitless: list[int], worker: _Worker) -> None:
    """Count a worker that ended badly; raise CampaignError if it is one too many."""
    code = worker.process.returncode
    if code:
        fruitless.append(code)
    failed = sum(code > 0 for code in fruitless)
    if failed >= MAX_FRUITLESS or len(fruitless) >= MAX_KILLED:
        raise CampaignError(f"{len(fruitless)} workers ended and did nothing; the last one said: {_said(worker)}")


def _said(worker: _Worker) -> str:
    worker.log.seek(0)
    lines = worker.log.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing"


def name_cause(error: BaseException) -> str:
    """Return an exception in one line: its type, and the last line of its message, which names the cause."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no message'])[-1]}"


def main(path: str) -> int:
    """Be a worker; the last line of its output says why it failed, if it did."""
    from cgverify.fuzzing.campaign_shard import CampaignWorker

    die_with_parent()
    try:
        worker = CampaignWorker.start(CampaignFolder.open(Path(path)))
        try:
            worker.run_open()
        finally:
            worker.close()
    except Exception as error:
        traceback.print_exc()
        print(name_cause(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
