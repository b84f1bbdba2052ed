"""What the programs of a run were made of: operations, which one feeds which, and features; gaps show.

`Coverage` is plain data that adds up over programs, shards and machines. An operation counts where it found operands;
a pair (a, b) counts each operand of b that an operation a made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from cgverify.fuzzing.choices import Choices, read_choices
from cgverify.fuzzing.program import Call, Program

import msgspec


class Coverage(msgspec.Struct, frozen=True):
    """Counts by operation, by pair of operations, and by feature, in the order of their names."""

    operations: dict[str, int] = {}
    pairs: tuple[tuple[str, str, int], ...] = ()
    features: dict[str, int] = {}

    def plus(self, other: Coverage) -> Coverage:
        """Return the counts of both."""
        tally = CoverageTally()
        tally.add(self)
        tally.add(other)
        return tally.total()


@dataclass(slots=True)
class CoverageTally:
    """Counts while a run goes on."""

    operations: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)

    def observe(self, program: Program) -> None:
        """Count one program."""
        choices = read_choices(program)
        makers = {chosen.identity: chosen.step.op for chosen in choices.steps}
        for chosen in choices.steps:
            self.operations[chosen.step.op] += 1
            for origin in chosen.operands:
                if origin.maker in makers:
                    self.pairs[makers[origin.maker], chosen.step.op] += 1
        self.features.update(set(find_features(choices)))

    def add(self, coverage: Coverage) -> None:
        """Count what was counted before."""
        self.operations.update(coverage.operations)
        self.pairs.update({(a, b): count for a, b, count in coverage.pairs})
        self.features.update(coverage.features)

    def total(self) -> Coverage:
        """Return the counts so far."""
        pairs = tuple((a, b, count) for (a, b), count in sorted(self.pairs.items()))
        return Coverage(dict(sorted(self.operations.items())), pairs, dict(sorted(self.features.items())))


def find_features(choices: Choices) -> Iterator[str]:
    """Yield the features of a program, each a word or two, the same one perhaps several times."""
    for _, entry in choices.inputs:
        yield f"dtype {entry.dtype}"
        yield f"rank {len(entry.shape)}"
        yield f"layout {entry.layout}"
        yield f"role {entry.role}"
        yield f"values {entry.values}"
        if 0 in entry.shape:
            yield "size 0"
        if 1 in entry.shape:
            yield "size 1"
        if entry.device == "cpu":
            yield "CPU input"
        if entry.alias_of is not None:
            yield "aliased inputs"
        if entry.requires_grad:
            yield "gradients"
    program = choices.program
    for event in program.history:
        yield f"history {type(event).__name__.lower()}"
        if isinstance(event, Call) and event.autocast:
            yield "autocast"
    if None in program.outputs:
        yield "None as output"
    made = [origin for origin in choices.outputs if origin is not None]
    if len(set(made)) < len(made):
        yield "repeated output"
    if any(origin.maker < len(choices.inputs) for origin in made):
        yield "input as output"
