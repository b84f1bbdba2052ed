"""What a campaign is, what its shards leave behind, and how that adds up: plain data, merged by set union.

A campaign is cut into shards, and a shard into parts of at most `PART` programs. The *unit* of a part (property,
shard, part) fixes the programs drawn, so a part made twice says the same twice: a file for each part, named by its
content, lies in the folder of the campaign, folders are merged by copying files, and where two files are about one
unit one of them counts, the same one in whatever order they came. A killed shard leaves the parts that it finished; a
doubled one changes nothing.
"""

from __future__ import annotations

import hashlib

from cgverify.fuzzing.coverage import Coverage
from cgverify.fuzzing.outcome import Recovered

import msgspec

FORMAT = "cgverify-campaign"
VERSION = 1

PART = 200
"""Programs in one part: what a killed shard has to do again at most."""


class CampaignError(ValueError):
    """A campaign that cannot be run, read or merged; one line says which, why, and what to do."""


class Campaign(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is to be run.

    Attributes:
        name: with property, shard and part it fixes every program drawn.
        target: the transform under test, as on the command line.
        device: `cuda` or `emulated`.
        properties: the properties to judge, each with its share of the programs.
        shards: how many shards there are.
        programs: how many programs all shards together run.
        seconds: after how long a shard begins no further program; None for no limit.
    """

    name: str
    target: str = "cgverify"
    device: str = "emulated"
    properties: dict[str, int] = {}
    shards: int = 8
    programs: int = 2000
    seconds: float | None = None

    @property
    def id(self) -> str:
        """A name that two campaigns share only if they are equal."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:12]

    def share(self, property: str, shard: int) -> int:
        """Return how many programs of a property one shard runs."""
        weights = sum(self.properties.values())
        shares = {name: self.programs * weight // weights for name, weight in self.properties.items()}
        shares[next(iter(shares))] += self.programs - sum(shares.values())
        return shares[property] // self.shards + (shard < shares[property] % self.shards)


class Unit(msgspec.Struct, frozen=True, order=True):
    """Which programs a part is about."""

    property: str
    shard: int
    part: int


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One distinct failure, complete in itself.

    Attributes:
        key: invariant, guilty operations, hash of the reduced program.
        invariant: its name.
        kinds: the operations of the reduced program.
        evidence: both sides in words.
        source: the reduced program as Python.
        program: the reduced program's file.
        script: the reproducer.
    """

    key: str
    invariant: str
    kinds: tuple[str, ...]
    evidence: str
    source: str
    program: str
    script: str


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What another run of the same part would not repeat.

    Attributes:
        begun: seconds since 1970 when the part began.
        seconds: how long it took, drawing and reducing included.
        judging: seconds of it spent judging programs.
        host: name of the machine.
        device: name of the device, as PyTorch gives it, or `emulated`.
        versions: of cgverify, Python, torch and thunder.
        children: child processes that were started.
    """

    begun: float
    seconds: float
    judging: float
    host: str
    device: str
    versions: dict[str, str]
    children: int = 0


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one part found.

    Attributes:
        campaign: id of the campaign.
        unit: which programs.
        programs: how many were judged.
        cut: whether time ran out before the end of the part; its shard ends with it.
        hashes: hash of the set of programs.
        statuses: counts of verdicts, and of what the programs did.
        coverage: operations, pairs and features met.
        failures: distinct failures that this part met first in its shard.
        met: how often each failure was met, by key.
        base_faults: examples of programs on which Thunder without graphs differs from eager.
        measured: times, machine, versions.
    """

    campaign: str
    unit: Unit
    programs: int
    cut: bool
    hashes: str
    statuses: dict[str, int]
    coverage: Coverage
    failures: tuple[Found, ...]
    met: dict[str, int]
    base_faults: tuple[str, ...]
    measured: Measured


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign found; two runs of one campaign without a limit in seconds agree in it.

    Attributes:
        programs: how many were judged.
        hashes: hash of the set of programs.
        statuses: counts by property: verdicts, and what the programs did (as in the summary of a fuzz run).
        coverage: operations, pairs and features met.
        failures: distinct failures by key.
        met: how often each failure was met, by key.
        base_faults: examples.
        parts: parts that exist, and parts that the campaign has.
        conflicts: units whose files disagree in more than what is measured: something is not deterministic.
    """

    programs: int
    hashes: str
    statuses: dict[str, dict[str, int]]
    coverage: Coverage
    failures: tuple[Found, ...]
    met: dict[str, int]
    base_faults: tuple[str, ...]
    parts: tuple[int, int]
    conflicts: tuple[Unit, ...] = ()


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One part in time: `programs` were judged between `begun` and `begun + seconds` on `host`."""

    begun: float
    seconds: float
    programs: int
    failures: int
    host: str
    unit: Unit


class Merged(msgspec.Struct, frozen=True, kw_only=True):
    """A campaign, as `cgverify campaign merge` writes it.

    Attributes:
        format: `cgverify-campaign`.
        version: of this format.
        campaign: what was to be run.
        totals: what was found.
        samples: every part in time, by when it began.
        versions: every set of versions that took part.
        devices: every device that took part.
        recovered: examples that a process was running when it ended, and what came of them.
    """

    format: str = FORMAT
    version: int = VERSION
    campaign: Campaign
    totals: Totals
    samples: tuple[Sample, ...]
    versions: tuple[dict[str, str], ...]
    devices: tuple[str, ...]
    recovered: tuple[Recovered, ...]
