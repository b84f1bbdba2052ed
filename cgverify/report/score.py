"""The score of planted faults, read out of what ``cgverify mutants --json`` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = "cgverify-mutants"


@dataclass(frozen=True, slots=True)
class Entry:
    """One planted fault.

    Attributes:
        name: of the mutator or mutant.
        kind: `rewrite` (a mutator corrupted a rewrite) or `mutant` (a broken transform or runtime).
        caught: what caught it; empty if nothing did.
        possible: whether it could show where the programs ran.
        programs: how many programs it took; None if that was not counted.
        size: ops of the shrunk program; None if it was not shrunk.
    """

    name: str
    kind: str
    caught: str
    possible: bool
    programs: int | None
    size: int | None


@dataclass(frozen=True, slots=True)
class MutationScore:
    """All planted faults, those missed first."""

    entries: tuple[Entry, ...]

    @property
    def caught(self) -> int:
        """How many were caught."""
        return sum(bool(entry.caught) for entry in self.entries)

    @property
    def possible(self) -> int:
        """How many could show."""
        return sum(entry.possible for entry in self.entries)

    @property
    def impossible(self) -> int:
        """How many could not."""
        return len(self.entries) - self.possible


def read_score(found: Mapping[str, Any]) -> MutationScore:
    """The score in an object of format `FORMAT`.

    Raises:
        KeyError, TypeError: it is no such object.
    """
    entries = [*_mutators(found), *_mutants(found)]
    return MutationScore(tuple(sorted(entries, key=lambda one: (bool(one.caught) or not one.possible, one.kind))))


def _mutators(found: Mapping[str, Any]) -> Iterator[Entry]:
    for one in found["mutators"]:
        whole = 0 < one["planted"] == one["caught"]
        yield Entry(str(one["name"]), "rewrite", str(one["code"]) if whole else "", one["planted"] > 0, None, None)


def _mutants(found: Mapping[str, Any]) -> Iterator[Entry]:
    for one in found["mutants"]:
        caught = str(one["caught"]) if one["ok"] else ""
        yield Entry(str(one["name"]), "mutant", caught, bool(one["possible"]), one["programs"], one["size"])
