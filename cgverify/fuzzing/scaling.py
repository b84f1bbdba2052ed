"""Measures how many programs a second several workers judge together on one device, as a campaign's workers do.

Run it with `python -m cgverify.fuzzing.scaling --workers 1,4,12`. Each worker is a process with a warm child of its
own, as in `cgverify campaign` and under pytest-xdist, and judges programs of its own, drawn beforehand. All begin
together once each has judged one program, so that neither imports nor a device's start count.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import queue
import time
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from cgverify.fuzzing.devices import DeviceName, choose_device
from cgverify.fuzzing.executor import Isolated
from cgverify.fuzzing.properties import PROPERTIES
from cgverify.fuzzing.targets import TargetError, find_target
from cgverify.fuzzing.throughput import draw_programs
from cgverify.wording import counted

import torch

PACE = 25
"""How many programs a worker draws for each second; it begins again with the first when it is through."""

START = 300.0
"""Seconds that all workers together may take until each has judged its first program."""


def measure_scaling(
    workers: Sequence[int], seconds: float, *, target: str, device: DeviceName, property: str = "equivalence"
) -> dict[int, float]:
    """Return programs per second of wall time, all workers together, by number of workers.

    Args:
        workers: numbers of processes, measured one after the other.
        seconds: how long each number is measured.
        target: name of the transform under test.
        device: where programs run.
        property: what is judged of each.

    Raises:
        TargetError: there is no such target.
        RuntimeError: a worker ended, or did not get as far as its first program.
    """
    find_target(target)
    return {number: _measure(number, seconds, (property, target, device)) for number in workers}


def describe_scaling(rates: dict[int, float]) -> list[str]:
    """Return a line for each number of workers: the rate, and how much of the fewest workers' pace each keeps."""
    fewest = min(rates)
    alone = rates[fewest] / fewest
    lines = []
    for number, rate in sorted(rates.items()):
        line = f"{counted(number, 'worker')}: {rate:.1f} programs a second"
        if number != fewest:
            line += f", {rate / rates[fewest]:.1f} times, {100 * rate / number / alone:.0f} % each"
        lines.append(line)
    return lines


def _measure(number: int, seconds: float, judged: tuple[str, str, DeviceName]) -> float:
    context = multiprocessing.get_context("spawn")
    start, done = context.Barrier(number), context.Queue()
    processes = [context.Process(target=_work, args=(k, seconds, judged, start, done)) for k in range(number)]
    for process in processes:
        process.start()
    deadline = time.monotonic() + START + 2 * seconds
    rates: list[float] = []
    try:
        while len(rates) < number:
            with contextlib.suppress(queue.Empty):
                rates.append(done.get(timeout=1))
            # one that ended badly keeps the others waiting
            if any(process.exitcode for process in processes) or time.monotonic() > deadline:
                failed = f"not all of {counted(number, 'worker')} judged programs for {seconds:g} s"
                raise RuntimeError(f"{failed}: what they printed says why; try fewer")
    finally:
        for process in processes:
            process.join(timeout=10 if len(rates) == number else 0)
            process.kill()
    return sum(rates)


def _work(number: int, seconds: float, judged: tuple[str, str, DeviceName], start: Any, done: Any) -> None:
    """Be a worker: put programs per second."""
    torch.set_num_threads(1)
    property, target, device = judged
    drawn = draw_programs(max(1, int(PACE * seconds)), number, PROPERTIES[property].draw())
    executor = Isolated(target, device).start()
    try:
        executor.judge(property, drawn[-1])
        start.wait(timeout=START)
        begun, count = time.monotonic(), 0
        for program in cycle(drawn):
            executor.judge(property, program)
            count += 1
            if time.monotonic() - begun >= seconds:
                break
        done.put(count / (time.monotonic() - begun))
    finally:
        executor.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(prog="python -m cgverify.fuzzing.scaling", description=__doc__.splitlines()[0])
    parser.add_argument("--workers", default="1,2", help="numbers of processes, separated by commas (1,2)")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each number is measured (20)")
    parser.add_argument("--device", choices=("auto", "emulated", "cuda"), default="auto", help="where programs run")
    parser.add_argument("--target", default="cgverify", help="the transform under test (cgverify)")
    parser.add_argument("--property", choices=tuple(PROPERTIES), default="equivalence", help="what is judged")
    chosen = parser.parse_args(arguments)
    workers = [int(number) if number.isdecimal() else 0 for number in chosen.workers.split(",")]
    if not all(workers):
        parser.error(f"--workers {chosen.workers}: give numbers of 1 or more, separated by commas, such as 1,4,12")
    try:
        find_target(chosen.target)
    except TargetError as error:
        parser.error(f"--target {error}")
    if chosen.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch.cuda.is_available() says no; use emulated or auto")
    device = choose_device(chosen.device)
    print(f"{chosen.property} of {chosen.target} on {device}, {chosen.seconds:g} s for each line", flush=True)
    rates = measure_scaling(workers, chosen.seconds, target=chosen.target, device=device, property=chosen.property)
    print(*describe_scaling(rates), sep="\n")


if __name__ == "__main__":
    main()
