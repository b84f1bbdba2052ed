"""What a shard of the fuzzer found: plain data, so that it can be sent, stored and added up."""

from __future__ import annotations

from cgverify.fuzzing.coverage import Coverage

import msgspec


class Recovered(msgspec.Struct, frozen=True):
    """An example that a process was running when it ended, and what came of running it again.

    Attributes:
        property: what was being judged.
        source: the program as Python.
        status: the verdict now: `ok`, `fail` or `incomparable`.
        evidence: what the verdict says, empty if it is `ok`.
        cause: what ended: the `process` that had written the journal, or the `child` that ran the program.
    """

    property: str
    source: str
    status: str
    evidence: str
    cause: str


class Failure(msgspec.Struct, frozen=True):
    """One distinct failure.

    Attributes:
        key: invariant, guilty operations, hash of the reduced program.
        invariant: its name.
        kinds: the operations of the reduced program.
        evidence: both sides in words.
        source: the reduced program as Python.
        script: path of the reproducer.
        seconds: from the start of the shard to the finding.
        count: how often it was met.
    """

    key: str
    invariant: str
    kinds: tuple[str, ...]
    evidence: str
    source: str
    script: str
    seconds: float
    count: int = 1


class Outcome(msgspec.Struct):
    """What one shard did; outcomes of shards add up.

    Attributes:
        property: its name.
        programs: how many were judged.
        seconds: spent judging them.
        statuses: counts of verdicts, and of what the programs did (`captured`, `regions>=2`, `mutated`, `finite`,
            ...).
        failures: the distinct failures.
        base_faults: examples of programs on which Thunder without graphs differs from eager, and why.
        hashes: hash of the set of programs judged; those of shards add up (see :mod:`cgverify.fuzzing.hashes`).
        coverage: operations, pairs and features met.
        recovered: examples that an earlier process or a child was running when it ended, run again.
        children: child processes that were started.
    """

    property: str
    programs: int = 0
    seconds: float = 0.0
    statuses: dict[str, int] = {}
    failures: list[Failure] = []
    base_faults: list[str] = []
    hashes: str = ""
    coverage: Coverage = Coverage()
    recovered: list[Recovered] = []
    children: int = 0
