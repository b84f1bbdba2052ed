"""The folder of a campaign: what is to be run, a file for each part that was, and who runs what just now.

campaign.json   what is to be run
parts/          one file for each part, named by unit and content
failures/       scripts and programs
journal/        what is running
locks/          one file for each shard, locked by the process that runs it
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from cgverify.fuzzing.campaign import PART, Campaign, CampaignError, Merged, Part, Unit
from cgverify.fuzzing.campaign_merging import encode_part, merge_parts
from cgverify.fuzzing.outcome import Recovered

import msgspec


class CampaignFolder:
    """A campaign on disk.

    Attributes:
        path: the folder.
        campaign: what is to be run.
    """

    def __init__(self, path: Path, campaign: Campaign) -> None:
        self.path, self.campaign = path, campaign

    @classmethod
    def create(cls, path: Path, campaign: Campaign) -> CampaignFolder:
        """Open the folder of a campaign, making it first if it is not there.

        Raises:
            CampaignError: the folder holds another campaign, or cannot be written.
        """
        file = path / "campaign.json"
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                write_whole(file, msgspec.json.format(msgspec.json.encode(campaign)))
        except OSError as error:
            raise CampaignError(f"cannot write {path}: {error.strerror}; name a folder that can be made") from error
        found = cls.open(path)
        if found.campaign != campaign:
            mine, theirs = (msgspec.structs.asdict(entry) for entry in (campaign, found.campaign))
            names = [name for name in mine if mine[name] != theirs[name]]
            raise CampaignError(
                f"{path} holds a campaign with another {', '.join(names)}; give the same options, or another folder"
            )
        return found

    @classmethod
    def open(cls, path: Path) -> CampaignFolder:
        """Open the folder of a campaign.

        Raises:
            CampaignError: there is none, or it cannot be read.
        """
        file = path / "campaign.json"
        try:
            return cls(path, msgspec.json.decode(file.read_bytes(), type=Campaign))
        except OSError as error:
            raise CampaignError(
                f"no campaign in {path} ({error.strerror}); begin one with `cgverify campaign run`"
            ) from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise CampaignError(f"{file} is no campaign ({error}); begin another one in another folder") from None

    def parts(self) -> list[Part]:
        """Return every part on disk, doubled ones too.

        Raises:
            CampaignError: a file is not what its name says, or no part's at all.
        """
        return [self._read(file) for file, _, _ in self._find_parts()]

    def write(self, part: Part) -> None:
        """Write a part, all of it or nothing."""
        content, unit = encode_part(part), part.unit
        extent = "cut" if part.cut else "whole"
        name = f"{unit.property}.{unit.shard:04d}.{unit.part:04d}.{extent}.{_digest(content)}.json"
        write_whole(self.path / "parts" / name, content)

    def recovered(self) -> list[Recovered]:
        """Return every example that was running when something died, and what came of running it again."""
        files = sorted((self.path / "recovered").glob("*.json"))
        return [_decode(file, Recovered, "nothing but a count depends on it") for file in files]

    def write_recovered(self, entry: Recovered) -> None:
        """Write down at once that an example was run again."""
        content = msgspec.json.encode(entry)
        write_whole(self.path / "recovered" / f"{_digest(content)}.json", content)

    def merge(self) -> Merged:
        """Return what all parts add up to."""
        return merge_parts(self.campaign, self.parts(), self.recovered())

    def find_missing(self, shard: int) -> list[Unit]:
        """Return the parts that a shard still has to run, in order; none if its time is used up."""
        return self._find_missing(shard, self._find_done())

    def find_gaps(self) -> list[Unit]:
        """Return the parts that all shards still have to run, in order."""
        done = self._find_done()
        return [unit for shard in range(self.campaign.shards) for unit in self._find_missing(shard, done)]

    def find_open(self) -> list[int]:
        """Return the shards that have something left to run."""
        return sorted({unit.shard for unit in self.find_gaps()})

    def count_done(self) -> int:
        """Return how many parts are done."""
        return len(self._find_done())

    def count_programs(self) -> tuple[int, int]:
        """Return how many programs whole parts have run, and how many failures are written."""
        shares = {
            unit: min(PART, self.campaign.share(unit.property, unit.shard) - PART * unit.part)
            for unit, is_cut in self._find_done().items()
            if not is_cut
        }
        return sum(shares.values()), sum(1 for _ in (self.path / "failures").glob("*.py"))

    def _find_missing(self, shard: int, done: dict[Unit, bool]) -> list[Unit]:
        if any(cut for unit, cut in done.items() if unit.shard == shard):
            return []
        units = [
            Unit(name, shard, number)
            for name in self.campaign.properties
            for number in range(-(-self.campaign.share(name, shard) // PART))
        ]
        return [unit for unit in units if unit not in done]

    def _find_done(self) -> dict[Unit, bool]:
        """Return the units that have a file, and whether it was cut short, by the files' names alone."""
        done: dict[Unit, bool] = {}
        for _, unit, is_cut in self._find_parts():
            done[unit] = done.get(unit, True) and is_cut
        return done

    def _find_parts(self) -> list[tuple[Path, Unit, bool]]:
        """Return the files of parts in order, with what their names say: the unit, and whether it was cut short."""
        folder = self.path / "parts"
        found = [(file, _NAME.fullmatch(file.name)) for file in sorted(folder.glob("*.json"))]
        if strangers := [file.name for file, name in found if name is None]:
            raise CampaignError(f"{folder} holds what is no part of a campaign: {', '.join(strangers)}; move it away")
        return [(file, Unit(n[1], int(n[2]), int(n[3])), n[4] == "cut") for file, n in found if n is not None]

    @contextmanager
    def claim(self, shard: int) -> Iterator[bool]:
        """Claim a shard for as long as this process lives, and say whether it was free."""
        folder = self.path / "locks"
        folder.mkdir(exist_ok=True)
        file = os.open(folder / f"{shard:04d}", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            yield _lock(file)
        finally:
            os.close(file)

    def is_free(self, shard: int) -> bool:
        """Whether no process has claimed a shard, just now."""
        with self.claim(shard) as is_free:
            return is_free

    def _read(self, file: Path) -> Part:
        return _decode(file, Part, "`cgverify campaign run` makes it again")


def merge_folders(folders: list[Path], into: Path) -> CampaignFolder:
    """Copy the parts of several folders of one campaign into one: a set union, in whatever order and however often.

    Raises:
        CampaignError: a folder is no campaign's, or another campaign's.
    """
    opened = [CampaignFolder.open(path) for path in folders]
    merged = CampaignFolder.create(into, opened[0].campaign)
    for folder in opened:
        if folder.campaign != merged.campaign:
            raise CampaignError(
                f"{folder.path} holds campaign {folder.campaign.name!r} with other options than {opened[0].path}; "
                "merge the folders of one campaign only"
            )
        for part in folder.parts():
            merged.write(part)
        for entry in folder.recovered():
            merged.write_recovered(entry)
    return merged


_NAME = re.compile(r"([a-z-]+)\.(\d{4,})\.(\d{4,})\.(cut|whole)\.[0-9a-f]{16}\.json")
"""What the files of parts are called: property, shard, part, extent, digest."""

_Kind = TypeVar("_Kind")


def _decode(file: Path, kind: type[_Kind], remedy: str) -> _Kind:
    """Read a file whose name ends with the digest of its content; raise CampaignError where it does not."""
    try:
        content = file.read_bytes()
        if file.stem.rpartition(".")[2] == _digest(content):
            return msgspec.json.decode(content, type=kind)
    except (OSError, msgspec.DecodeError, RecursionError):
        pass
    raise CampaignError(f"{file} is damaged: delete it; {remedy}")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def write_whole(file: Path, content: bytes) -> None:
    """Write a file at once: whoever reads it meanwhile, or writes it too, gets all of one content or of another."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(file)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
