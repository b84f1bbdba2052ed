"""A campaign on a real Ray cluster on this machine: a killed task loses nothing, and the result is the serial run's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from cgverify.fuzzing.campaign import Campaign, CampaignError
from cgverify.fuzzing.campaign_folder import CampaignFolder
from cgverify.fuzzing.campaign_local import run_locally
from cgverify.fuzzing.campaign_ray import run_on_ray
from tests.fuzzing.killing import stop_and_look

import pytest

PLAN = Campaign(name="ray", properties={"structure": 1}, shards=8, programs=64)


class Killer:
    """Kills the first task that is seen running a program."""

    def __init__(self) -> None:
        self.running: list[str] = []

    def __call__(self, folder: CampaignFolder) -> None:
        """Look once."""
        for path in [] if self.running else sorted((folder.path / "journal").glob("*.jsonl")):
            pid = int(path.name.partition("-")[0])
            try:
                self.running = stop_and_look(pid, path.parent)
                os.kill(pid, signal.SIGKILL if self.running else signal.SIGCONT)
            except ProcessLookupError:
                continue
            if self.running:
                return


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_killed_task(tmp_path: Path) -> None:
    """Eight shards over a local cluster, one task killed in the middle: its example is run again, its shard goes on,
    and the totals are those of one process after the other.
    """
    pytest.importorskip("ray", reason="Ray is not installed; pip install 'cgverify[ray]'")
    folder, killer = CampaignFolder.create(tmp_path / "ray", PLAN), Killer()
    died = run_on_ray(folder, None, killer)
    serial = CampaignFolder.create(tmp_path / "serial", PLAN)
    run_locally(serial, 1, lambda folder: None)
    assert died == 1
    assert killer.running
    assert {entry.source for entry in folder.recovered()} >= set(killer.running)
    assert folder.merge().totals == serial.merge().totals
    assert folder.merge().totals.programs == PLAN.programs


def test_without_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ray, the error says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(CampaignError, match="pip install 'cgverify"):
        run_on_ray(CampaignFolder.create(tmp_path, PLAN), None, lambda folder: None)
