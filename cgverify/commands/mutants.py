"""``cgverify mutants``: plant known faults and count those that are caught, and false alarms where none is planted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Annotated

from cgverify.commands.options import STANDARD_OUTPUT, Device, DeviceOption, JsonOption, write_json
from cgverify.progress import Progress, show_progress
from cgverify.wording import counted

import typer

if TYPE_CHECKING:
    from cgverify.alarms import Alarms
    from cgverify.hunting import Hunt
    from cgverify.scoring import Score


class Stage(str, Enum):
    """Which part is scored."""

    all = "all"
    verifier = "verifier"
    running = "running"


def mutants(
    programs: Annotated[int, typer.Option(help="At most so many random programs for each fault.", min=1)] = 1000,
    seconds: Annotated[float, typer.Option(help="At most so long for running each mutant.", min=0)] = 120.0,
    seed: Annotated[int, typer.Option(help="Chooses the programs.")] = 0,
    device: DeviceOption = Device.auto,
    stage: Annotated[Stage, typer.Option(help="verifier judges traces and runs nothing; running runs mutants.")] = (
        Stage.all
    ),
    pairs: Annotated[
        int | None,
        typer.Option(help="How many right rewrites are judged: twice --programs if left out.", min=0),
    ] = None,
    pairs_seconds: Annotated[
        float | None, typer.Option(help="Judge no more right rewrites after this long.", min=0)
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes.", min=1)] = 1,
    reduce: Annotated[bool, typer.Option("--reduce/--no-reduce", help="Make small what running finds.")] = True,
    corpus: Annotated[
        str, typer.Option(metavar="FOLDER", help="Kept programs, for what no random one gives away.")
    ] = "fuzz/corpus",
    json_file: JsonOption = None,
) -> int:
    """Plant known faults, and judge right rewrites: 0 all faults caught and no false alarm, else 1."""
    from cgverify import scoring
    from cgverify.alarms import Alarms, count_alarms
    from cgverify.fuzzing.mutants import MUTANTS
    from cgverify.hunting import Effort, hunt_all

    shown = json_file != STANDARD_OUTPUT
    scores: list[Score] = []
    alarms, wanted = Alarms(), 0
    if stage is not Stage.running:
        with show_progress("rewrites corrupted") as progress:
            scores = scoring.score_mutators(programs, seed, progress.advance)
        wanted = 2 * programs if pairs is None else pairs
        with show_progress("right rewrites", wanted, unit="rewrites") as progress:
            alarms = count_alarms(wanted, seed, jobs, partial(_tell, progress), pairs_seconds)
        if shown:
            _print_scores(scores)
            print(alarms.render())
    effort = Effort(programs, seconds, seed, corpus, running=stage is not Stage.verifier, reducing=reduce)
    with show_progress("mutants", len(MUTANTS) if effort.running else None, unit="mutants") as progress:

        def tell(hunt: Hunt) -> None:
            progress.advance(failed=not hunt.ok)
            if shown:
                _print_hunt(hunt)

        hunts = hunt_all(effort, device.value, jobs, tell)
    found = sum(score.ok for score in scores) + sum(hunt.ok and hunt.possible for hunt in hunts)
    planted = len(scores) + sum(hunt.possible for hunt in hunts)
    if json_file is not None:
        told = [{**asdict(hunt), "caught": hunt.caught, "ok": hunt.ok} for hunt in hunts]
        judged = {"pairs": alarms.pairs, "false": alarms.false, "refused": alarms.refused, "lost": alarms.lost}
        mutators = [asdict(score) for score in scores]
        write_json("mutants", {"mutators": mutators, "mutants": told, "alarms": judged}, json_file)
    if shown:
        _print_rates(hunts, running=effort.running)
        print(f"{found} of {planted} planted faults are caught")
    judged_enough = alarms.pairs >= wanted or pairs_seconds is not None
    return 0 if found == planted and not alarms.false and judged_enough else 1


def _print_scores(scores: Sequence[Score]) -> None:
    for score in scores:
        remark = "" if score.ok else "  missed" if score.planted else "  never planted: draw more --programs"
        print(f"{score.code}  {score.name:<24} {score.caught}/{score.planted}{remark}")


def _print_hunt(hunt: Hunt) -> None:
    found = []
    if hunt.shows == "static":
        found.append(
            f"{hunt.rejected} after {hunt.traces} traces" if hunt.rejected else f"unseen in {hunt.traces} traces"
        )
    if hunt.invariant:
        size = "" if hunt.size is None else f", {hunt.size} ops"
        after = (
            f"after {counted(hunt.programs, 'program')}, {hunt.seconds:.1f} s{size}"
            if hunt.programs
            else "of its process"
        )
        found.append(f"{hunt.invariant} {after}")
    elif hunt.programs:
        found.append(f"nothing in {counted(hunt.programs, 'program')}, {hunt.seconds:.1f} s")
    remark = f"  (kept program {hunt.kept})" if hunt.kept else "" if hunt.ok else "  missed"
    how = "; ".join(found) if hunt.possible else "needs a GPU to show"
    print(f"mutant {hunt.name:<24} {','.join(hunt.faults):<12} {how}{remark}", flush=True)


def _print_rates(hunts: Sequence[Hunt], *, running: bool) -> None:
    static = [hunt for hunt in hunts if hunt.shows == "static"]
    print(f"verifier: {sum(bool(hunt.rejected) for hunt in static)} of {len(static)} faults that traces show")
    if not running:
        return
    for place in ("static", "emulated", "gpu"):
        there = [hunt for hunt in hunts if hunt.shows == place and hunt.possible]
        if there:
            print(f"running: {sum(bool(hunt.invariant) for hunt in there)} of {len(there)} faults that show {place}")
    caught = [hunt for hunt in hunts if hunt.invariant and hunt.programs]
    if caught:
        programs, seconds = median(hunt.programs for hunt in caught), median(hunt.seconds for hunt in caught)
        slowest = max(hunt.seconds for hunt in caught)
        print(f"to the first: median {programs:g} programs, {seconds:.1f} s; at most {slowest:.1f} s")
    sizes = [hunt.size for hunt in caught if hunt.size is not None]
    if sizes:
        print(f"made small: median {median(sizes):g} ops, at most {max(sizes)}")


def _tell(progress: Progress, alarms: Alarms) -> None:
    progress.advance(alarms.pairs - progress.done, failed=len(alarms.false) - progress.failed)
