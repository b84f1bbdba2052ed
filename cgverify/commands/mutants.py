"""``cgverify mutants``: plant known faults and count those that are caught."""

from __future__ import annotations

from typing import Annotated

from cgverify.commands.options import Device, DeviceOption

import typer


def mutants(
    programs: Annotated[int, typer.Option(help="How many random programs the faults are planted in.", min=1)] = 1000,
    seed: Annotated[int, typer.Option(help="Chooses the programs.")] = 0,
    device: DeviceOption = Device.auto,
) -> int:
    """Plant known faults and count those that are caught: 0 all, 1 not all."""
    from cgverify.scoring import count_alarms, hunt_mutants, score_mutators

    scores = score_mutators(programs, seed)
    for score in scores:
        remark = "" if score.ok else "  missed" if score.planted else "  never planted: draw more --programs"
        print(f"{score.code}  {score.name:<24} {score.caught}/{score.planted}{remark}")
    alarms = count_alarms(programs, seed)
    for alarm in alarms.false:
        print(f"false alarm  {alarm}")
    print(f"{len(alarms.false)} alarms on {alarms.pairs} right rewrites")
    hunts = hunt_mutants(programs, seed, device.value)
    for hunt in hunts:
        how = f"{hunt.caught} after {hunt.programs} programs" if hunt.caught else f"missed in {hunt.programs} programs"
        print(f"mutant {hunt.name:<24} {how if hunt.possible else 'needs a GPU to show'}")
    found = sum(score.ok for score in scores) + sum(bool(hunt.caught) for hunt in hunts)
    planted = len(scores) + sum(hunt.possible for hunt in hunts)
    print(f"{found} of {planted} planted faults are caught")
    return 0 if found == planted and not alarms.false else 1
