"""``cgverify mutants``: plant known faults and count those that are caught, and false alarms where none is planted."""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated

from cgverify.commands.options import Device, DeviceOption

import typer

if TYPE_CHECKING:
    from cgverify.alarms import Alarms
    from cgverify.scoring import Hunt, Score


class Stage(str, Enum):
    """Which part is scored."""

    all = "all"
    verifier = "verifier"
    running = "running"


def mutants(
    programs: Annotated[int, typer.Option(help="How many random programs the faults are planted in.", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="Chooses the programs.")] = 0,
    device: DeviceOption = Device.auto,
    stage: Annotated[Stage, typer.Option(help="verifier judges traces and runs nothing; running runs mutants.")] = (
        Stage.all
    ),
    pairs: Annotated[
        int | None,
        typer.Option(help="How many right rewrites are judged: twice --programs if left out.", min=0),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes that judge right rewrites.", min=1)] = 1,
) -> int:
    """Plant known faults, and judge right rewrites: 0 all faults caught and no false alarm, else 1."""
    from cgverify import scoring
    from cgverify.alarms import Alarms, count_alarms

    scores: list[Score] = []
    alarms = Alarms()
    if stage is not Stage.running:
        scores = scoring.score_mutators(programs, seed)
        _print_scores(scores)
        alarms = count_alarms(2 * programs if pairs is None else pairs, seed, jobs, _tell)
        print(alarms.render())
    hunts = (
        scoring.hunt_static_mutants(programs, seed)
        if stage is Stage.verifier
        else scoring.hunt_mutants(programs, seed, device.value)
    )
    _print_hunts(hunts)
    found = sum(score.ok for score in scores) + sum(bool(hunt.caught) for hunt in hunts)
    planted = len(scores) + sum(hunt.possible for hunt in hunts)
    print(f"{found} of {planted} planted faults are caught")
    return 0 if found == planted and not alarms.false else 1


def _print_scores(scores: list[Score]) -> None:
    for score in scores:
        remark = "" if score.ok else "  missed" if score.planted else "  never planted: draw more --programs"
        print(f"{score.code}  {score.name:<24} {score.caught}/{score.planted}{remark}")


def _print_hunts(hunts: list[Hunt]) -> None:
    for hunt in hunts:
        how = f"{hunt.caught} after {hunt.programs} programs" if hunt.caught else f"missed in {hunt.programs} programs"
        print(f"mutant {hunt.name:<24} {how if hunt.possible else 'needs a GPU to show'}")


def _tell(alarms: Alarms) -> None:
    print(f"{len(alarms.false)} alarms on {alarms.pairs} right rewrites so far", file=sys.stderr, flush=True)
