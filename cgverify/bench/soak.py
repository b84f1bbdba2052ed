"""A soak: random histories of calls on several threads and streams, each result checked, reserved memory watched.

```
python -m cgverify.bench.soak --seconds 240 --threads 8 --streams 3
```

Each thread, again and again, takes a random stream and a random history (`soak_histories.py`): inference, values read
on the host, in-place writes, training, dropout, parameter updates, in many sizes, under one transform that may keep
fewer graphs than there are sizes. Every result is compared with that of the un-graphed function, bit for bit; some are
kept and compared again later, and must not have changed. The exit code is 1 if anything differs or raises, if a thread
does not come back, or if reserved memory grows after the first eighth of the time by more than a segment of the
allocator for each stream: chance decides how many threads meet on one.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from cgverify.api import CUDAGraphTransform
from cgverify.bench.soak_histories import ROWS, Draw, History, difference, make_histories
from cgverify.checking import open_device
from cgverify.emulation.current import in_force

import torch

MAX_GRAPHS = 16
IN_PLACE_AFTER = 1
"""So soon that the few calls of a history read inputs in place, and copy them again."""

SETTLED = 8
"""Reserved memory may grow in the first of so many parts of the time."""

SEGMENT = 2 << 20
"""Bytes that the caching allocator takes from the device at once for small tensors."""

HELD = 6
"""Results that a thread keeps, to look at them again."""

GRACE_SECONDS = 60.0
"""How long a thread may take to end its last step."""


class Gate:
    """Many threads at once, or one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._waiting = 0  # threads that want to be alone: nobody enters before them

    @contextmanager
    def entered(self, *, alone: bool) -> Iterator[None]:
        """Waits until the thread may be in, alone or with others."""
        with self._changed:
            if alone:
                self._waiting += 1
                self._changed.wait_for(lambda: not self._inside)
                self._waiting -= 1
                self._inside = -1
            else:
                self._changed.wait_for(lambda: self._inside >= 0 and not self._waiting)
                self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside = 0 if alone else self._inside - 1
                self._changed.notify_all()


@dataclass
class Soak:
    """What all threads share.

    Attributes:
        histories: what is called.
        streams: what it is called on.
        sizes: of batches.
        end: when to stop, on the clock of `time.monotonic`.
        faults: what went wrong, in words.
        steps: how many, by history.
    """

    histories: Sequence[History]
    streams: Sequence[torch.cuda.Stream]
    sizes: Sequence[int]
    end: float
    gate: Gate = field(default_factory=Gate)
    faults: list[str] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)

    def work(self, number: int) -> None:
        """One thread's part."""
        emulation = in_force()
        with emulation.in_thread() if emulation else nullcontext():
            try:
                self._steps(number)
            except Exception as error:  # whatever it is, it belongs into the report
                self.faults.append(f"thread {number}: {type(error).__name__}: {error}")

    def _steps(self, number: int) -> None:
        draw, choice = Draw(number, self.sizes), random.Random(number)
        held: deque[tuple[torch.cuda.Stream, list[torch.Tensor], list[torch.Tensor]]] = deque(maxlen=HELD)
        for history, stream in self._order(choice):
            if time.monotonic() > self.end or self.faults:
                break
            with self.gate.entered(alone=history.exclusive):
                with torch.cuda.stream(stream):
                    found, results = history.step(draw)
                    held.append((stream, results, [result.clone() for result in results]))
                self._note(f"thread {number}, {history.name}", found)
                stream, results, copies = choice.choice(held)
                with torch.cuda.stream(stream):
                    self._note(f"thread {number}, a result kept from an earlier call", difference(results, copies))
            self.steps[history.name] += 1

    def _order(self, choice: random.Random) -> Iterator[tuple[History, torch.cuda.Stream]]:
        """Each history on each stream once, so that libraries take their memory early; then at random."""
        every = [(history, stream) for history in self.histories for stream in self.streams]
        yield from choice.sample(every, len(every))
        while True:
            yield choice.choice(every)

    def _note(self, where: str, found: str) -> None:
        if found:
            self.faults.append(f"{where}: {found}")


@dataclass(frozen=True, slots=True)
class Memory:
    """Peaks of reserved bytes.

    Attributes:
        first: in the first part of the time.
        later: over all of it.
        last_growth: seconds from the start to the last growth seen.
    """

    first: int
    later: int
    last_growth: float = 0.0

    @property
    def grown(self) -> int:
        """Bytes by which the later peak exceeds the first one."""
        return max(0, self.later - self.first)


def run_soak(soak: Soak, threads: int, seconds: float) -> Memory:
    """Starts the threads, watches memory until they end."""
    running = [threading.Thread(target=soak.work, args=(k,), daemon=True) for k in range(threads)]
    settled = soak.end - seconds * (SETTLED - 1) / SETTLED
    begin, last_growth = time.monotonic(), 0.0
    first = later = 0
    for thread in running:
        thread.start()
    while any(thread.is_alive() for thread in running) and time.monotonic() < soak.end + GRACE_SECONDS:
        peak = int(torch.cuda.max_memory_reserved())
        now = time.monotonic()
        if peak > later:
            later, last_growth = peak, now - begin
        if now < settled:
            first = later
        time.sleep(min(0.25, seconds / 20))
    soak.faults += [f"thread {k} did not come back" for k, thread in enumerate(running) if thread.is_alive()]
    return Memory(first, later, last_growth)


def soak_device(
    seconds: float, threads: int, streams: int, sizes: Sequence[int] = ROWS
) -> tuple[Soak, CUDAGraphTransform, Memory]:
    """Compiles everything in this thread, since Thunder compiles in one thread at a time, then soaks."""
    transform = CUDAGraphTransform(max_graphs=MAX_GRAPHS, in_place_after=IN_PLACE_AFTER)
    histories = make_histories(transform)
    for history in histories:
        history.warm(Draw(len(sizes), sizes))
    torch.cuda.synchronize()
    sides = [torch.cuda.Stream() for _ in range(streams)]
    soak = Soak(histories, sides, sizes, time.monotonic() + seconds)
    return soak, transform, run_soak(soak, threads, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Soaks and prints what happened: 1 if anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m cgverify.bench.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--device", choices=("auto", "emulated", "cuda"), default="auto")
    chosen = parser.parse_args(arguments)
    with open_device(chosen.device) as device:
        print(f"on {device}: {chosen.threads} threads, {chosen.streams} streams, {chosen.seconds:.0f} s", flush=True)
        soak, transform, memory = soak_device(chosen.seconds, chosen.threads, chosen.streams)
    faults = list(soak.faults)
    if memory.grown > chosen.streams * SEGMENT:
        faults.append(f"reserved memory grew by {memory.grown / 2**20:.1f} MiB after the first eighth of the time")
    print("steps: " + ", ".join(f"{name} {count:,}" for name, count in sorted(soak.steps.items())))
    peaks = f"{memory.first / 2**20:.0f} MiB in the first eighth of the time, {memory.later / 2**20:.0f} MiB in all"
    print(f"reserved: {peaks}, last growth after {memory.last_growth:.0f} s")
    print(transform.stats())
    print("\n".join(faults[:20]) if faults else "nothing wrong")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
