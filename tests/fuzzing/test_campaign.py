"""Campaigns: shards cover the programs, merging is a set union, and a killed or doubled shard changes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from cgverify.cli import main
from cgverify.fuzzing import campaign_local
from cgverify.fuzzing.campaign import PART, Campaign, CampaignError, Found, Measured, Merged, Part, Unit
from cgverify.fuzzing.campaign_folder import CampaignFolder, merge_folders
from cgverify.fuzzing.campaign_merging import merge_parts
from cgverify.fuzzing.campaign_shard import CampaignWorker
from cgverify.fuzzing.campaign_summary import write_merged
from cgverify.fuzzing.coverage import Coverage
from cgverify.fuzzing.hashes import add_hashes, hash_text
from tests.fuzzing.killing import stop_and_look

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

PLAN = Campaign(name="test", properties={"equivalence": 3, "eager": 1}, shards=3, programs=1000)


def make_part(
    unit: Unit, *, programs: int = 5, cut: bool = False, found: tuple[str, ...] = (), host: str = "a"
) -> Part:
    """A part that says what its unit says, on a machine of choice."""
    text = f"{unit}"
    failures = tuple(
        Found(key=key, invariant="wrong-result", kinds=(), evidence="", source="", program="{}", script="")
        for key in found
    )
    return Part(
        campaign=PLAN.id,
        unit=unit,
        programs=programs,
        cut=cut,
        hashes=hash_text(text),
        statuses={"ok": programs},
        coverage=Coverage({"add": 1}, (("add", "mul", 2),), {"rank 1": 1}),
        failures=failures,
        met=dict.fromkeys(found, 2),
        base_faults=(),
        measured=Measured(begun=1.0, seconds=2.0, judging=1.5, host=host, device="emulated", versions={"torch": "2"}),
    )


UNITS = [Unit(name, shard, part) for name in PLAN.properties for shard in range(3) for part in range(2)]


@settings(max_examples=60, deadline=None)
@given(
    drawn=st.lists(st.tuples(st.sampled_from(UNITS), st.sampled_from("abc"), st.booleans()), max_size=12),
    chance=st.randoms(use_true_random=False),
)
def test_merging_is_a_set_union(drawn: list[tuple[Unit, str, bool]], chance: object) -> None:
    """Doubled parts, other machines' accounts of the same unit, and any order give the same totals."""
    parts = [make_part(unit, host=host, found=("k",) if fails else ()) for unit, host, fails in drawn]
    shuffled = parts * 2
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert merge_parts(PLAN, parts) == merge_parts(PLAN, shuffled)


def test_totals() -> None:
    """Programs, statuses, coverage and failures of different units add up; a failure met twice is one failure."""
    one, two = UNITS[0], UNITS[-1]
    totals = merge_parts(PLAN, [make_part(one, found=("k", "l")), make_part(two, found=("k",))]).totals
    assert totals.programs == 10
    assert totals.statuses == {
        "eager": {"ok": 5, "programs": 5},
        "equivalence": {"ok": 5, "programs": 5},
    }
    assert totals.coverage == Coverage({"add": 2}, (("add", "mul", 4),), {"rank 1": 2})
    assert [failure.key for failure in totals.failures] == ["k", "l"]
    assert totals.met == {"k": 4, "l": 2}
    assert totals.hashes == add_hashes([hash_text(f"{two}"), hash_text(f"{one}")])


def test_conflicts_are_named() -> None:
    """Two whole parts of one unit that say different things are a conflict; a part cut short is none, and loses."""
    unit = UNITS[0]
    assert merge_parts(PLAN, [make_part(unit), make_part(unit, found=("k",))]).totals.conflicts == (unit,)
    merged = merge_parts(PLAN, [make_part(unit, programs=2, cut=True), make_part(unit)]).totals
    assert (merged.conflicts, merged.programs) == ((), 5)


@pytest.mark.parametrize(("programs", "shards"), [(1, 1), (7, 3), (1000, 7), (50_000, 64)])
def test_shares(programs: int, shards: int) -> None:
    """Shards and properties share the programs without loss, and evenly."""
    plan = msgspec.structs.replace(PLAN, programs=programs, shards=shards)
    for name in plan.properties:
        shares = [plan.share(name, shard) for shard in range(shards)]
        assert max(shares) - min(shares) <= 1
    assert sum(plan.share(name, shard) for name in plan.properties for shard in range(shards)) == programs


def test_what_is_missing(tmp_path: Path) -> None:
    """A shard lacks the parts that have no file; one whose time ran out lacks nothing."""
    folder = CampaignFolder.create(tmp_path, msgspec.structs.replace(PLAN, programs=4 * 3 * (PART + 1)))
    first, second, third = folder.find_missing(1)[:3]
    assert (first, second, third.property) == (Unit("equivalence", 1, 0), Unit("equivalence", 1, 1), "equivalence")
    folder.write(msgspec.structs.replace(make_part(first), campaign=folder.campaign.id))
    assert folder.find_missing(1)[0] == second
    folder.write(msgspec.structs.replace(make_part(second, cut=True), campaign=folder.campaign.id))
    assert folder.find_missing(1) == []
    assert folder.find_open() == [0, 2]


def test_folders_merge_in_any_order(tmp_path: Path) -> None:
    """Copying folders together, twice and in any order, gives the same campaign."""
    folders = [CampaignFolder.create(tmp_path / name, PLAN) for name in "ab"]
    for folder, units in zip(folders, (UNITS[:4], UNITS[2:7]), strict=True):
        for unit in units:
            folder.write(make_part(unit, host=folder.path.name))
    paths = [folder.path for folder in folders]
    there = merge_folders(paths, tmp_path / "there").merge()
    back = merge_folders([*paths[::-1], tmp_path / "there"], tmp_path / "back").merge()
    assert there == back
    assert there.totals.programs == 5 * 7
    assert merge_folders([tmp_path / "back"], tmp_path / "back").merge() == back


def test_merge_names_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A merge that lacks parts adds up the others, names the shards, and ends with a code of its own."""
    one, two = (CampaignFolder.create(tmp_path / name, PLAN) for name in "ab")
    for unit in one.find_gaps():
        (one if unit.shard else two).write(make_part(unit))
    command = ["campaign", "merge", "--into", str(tmp_path / "all"), str(one.path)]
    assert main(command) == 3
    shown = capsys.readouterr()
    assert "6 of 9 parts, 30 of 1000 programs" in shown.out
    assert shown.err == "missing: 3 parts, of shard 0; merge the folders that have them too, or run them\n"
    assert main([*command, str(two.path)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("name", "said", "command"),
    [
        ("parts/notes.json", "no part of a campaign: notes.json; move it away", "merge --into {}/all {}"),
        ("parts/notes.json", "no part of a campaign: notes.json; move it away", "run {} --name test --shard 0"),
        ("parts/eager.x.0000.whole.0123456789abcdef.json", "no part of a campaign: eager.x.0000", "status {}"),
        ("parts/eager.0000.0000.whole.0123456789abcdef.json", "is damaged: delete it", "merge --into {}/all {}"),
        ("recovered/0123456789abcdef.json", "is damaged: delete it", "status {}"),
    ],
)
def test_strange_files_are_named(
    name: str, said: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no part's, or not what its name says, is refused in one line by the command that meets it."""
    plan = Campaign(name="test", properties={"equivalence": 6, "eager": 2, "gradients": 1, "end-to-end": 1}, programs=1)
    file = CampaignFolder.create(tmp_path, plan).path / name
    file.parent.mkdir()
    file.write_text("{}", encoding="utf-8")
    options = ["--programs", "1", "--device", "emulated"] if command.startswith("run") else []
    assert main(["campaign", *command.replace("{}", str(tmp_path)).split(), *options]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.err.count("\n") == 1


def test_merged_is_written_at_once(tmp_path: Path) -> None:
    """Whoever reads `merged.json` while another shard's job writes it reads all that was there."""
    folder = CampaignFolder.create(tmp_path, PLAN)
    write_merged(folder.merge(), tmp_path)
    with (tmp_path / "merged.json").open("rb") as reader:
        folder.write(make_part(UNITS[0]))
        write_merged(folder.merge(), tmp_path)
        assert msgspec.json.decode(reader.read(), type=Merged).totals.programs == 0
    assert msgspec.json.decode((tmp_path / "merged.json").read_bytes(), type=Merged).totals.programs == 5


def test_errors(tmp_path: Path) -> None:
    """Another campaign's folder, a folder without one and a damaged part are named, each with a remedy."""
    folder = CampaignFolder.create(tmp_path / "one", PLAN)
    other = msgspec.structs.replace(PLAN, programs=5, name="other")
    with pytest.raises(CampaignError, match="holds a campaign with another name, programs; give the same options"):
        CampaignFolder.create(tmp_path / "one", other)
    CampaignFolder.create(tmp_path / "two", other)
    with pytest.raises(CampaignError, match="merge the folders of one campaign only"):
        merge_folders([tmp_path / "one", tmp_path / "two"], tmp_path / "both")
    with pytest.raises(CampaignError, match=r"no campaign in .*begin one"):
        CampaignFolder.open(tmp_path)
    folder.write(make_part(UNITS[0]))
    (file,) = (tmp_path / "one" / "parts").iterdir()
    file.write_bytes(file.read_bytes().replace(b'"programs":5', b'"programs":6'))
    with pytest.raises(CampaignError, match=r"equivalence.0000.0000.* is damaged: delete it"):
        folder.merge()


def test_a_shard_has_one_runner(tmp_path: Path) -> None:
    """A claimed shard is nobody else's until its process lets go."""
    folder = CampaignFolder.create(tmp_path, PLAN)
    with folder.claim(1) as first, folder.claim(1) as second, folder.claim(2) as other:
        assert (first, second, other) == (True, False, True)
    with folder.claim(1) as again:
        assert again


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "{}", "--property", "nosuch"], "there is no such property"),
        (["run", "{}", "--target", "nosuch"], "unknown target"),
        (["run", "{}", "--workers", "few"], "give a number"),
        (["run", "{}", "--device", "emulated", "--shard", "8"], "counted from 0"),
        (["status", "{}"], "no campaign in"),
        (["merge", "{}", "--into", "{}/x"], "no campaign in"),
        (["matrix", "--shards", "300"], "at most 256"),
    ],
)
def test_usage_errors(arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong option is one line on standard error and exit code 2."""
    code = main(["campaign", *(text.replace("{}", str(tmp_path)) for text in arguments)])
    shown = capsys.readouterr()
    assert (code, shown.err.count("\n")) == (2, 1)
    assert said in shown.err


@pytest.mark.parametrize(("programs", "code", "said"), [(5, 0, False), (300, 1, True)])
def test_a_campaign_that_proves_little_fails(
    programs: int, code: int, said: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a line says FAILED because too little was captured, the exit code says so too."""
    CampaignFolder.create(tmp_path, PLAN).write(make_part(UNITS[0], programs=programs))
    assert main(["campaign", "status", str(tmp_path)]) == code
    assert ("FAILED: equivalence: only 0 of 300 judged programs are captured" in capsys.readouterr().out) is said


def test_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    """The matrix has one job for each shard."""
    assert main(["campaign", "matrix", "--shards", "2"]) == 0
    assert json.loads(capsys.readouterr().out) == {"include": [{"shard": 0, "of": 2}, {"shard": 1, "of": 2}]}


class Enough(Exception):
    """Ends a campaign in a test."""


@pytest.mark.parametrize(("claimed", "started"), [([], 2), ([0, 1], 1), ([0, 1, 2], 0)])
def test_workers_are_started_for_free_shards_only(
    claimed: list[int], started: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another process runs all that is left, no worker is started to find that out."""
    folder = CampaignFolder.create(tmp_path, PLAN)
    slots: list[int] = []

    def start(_: CampaignFolder, slot: int) -> campaign_local._Worker:
        slots.append(slot)
        return campaign_local._Worker(process, slot, (tmp_path / f"{slot}").open("w+b"))

    def end(_: CampaignFolder) -> None:
        raise Enough

    monkeypatch.setattr(campaign_local, "_start", start)
    with ExitStack() as stack, subprocess.Popen([sys.executable, "-c", ""]) as process:
        assert all(stack.enter_context(folder.claim(shard)) for shard in claimed)
        with pytest.raises(Enough):
            campaign_local.run_locally(folder, 2, end)
    assert slots == list(range(started))


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until something is so."""
    late = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < late, "it takes too long"
        time.sleep(0.005)


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    """After `kill -9` of a worker, the next one runs the example that was running first, and the totals are those of
    a campaign in peace.
    """
    plan = Campaign(name="killed", properties={"structure": 1}, shards=2, programs=60)
    folder = CampaignFolder.create(tmp_path / "killed", plan)
    command = [sys.executable, "-m", "cgverify.fuzzing.campaign_local", str(folder.path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as worker:
        wait_for(lambda: folder.count_done() == 1, 300)
        journal = folder.path / "journal"
        while not (running := stop_and_look(worker.pid, journal)):
            assert worker.poll() is None
            worker.send_signal(signal.SIGCONT)
        worker.kill()
    left = folder.find_open()
    peaceful = CampaignFolder.create(tmp_path / "peaceful", plan)
    next_worker = CampaignWorker.start(folder)
    next_worker.run_open()
    next_worker.folder = peaceful
    next_worker.run_open()
    next_worker.close()
    assert left == [1]
    assert {entry.source for entry in folder.recovered()} >= set(running)
    assert folder.merge().totals == peaceful.merge().totals
    assert list(journal.iterdir()) == []
