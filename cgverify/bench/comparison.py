"""Runs the peers on the cases and gives rows: each peer is checked against eager before it is timed.

Peers of one case and one executor are made ready one after the other, and are then timed in turn. A peer that fails or
is wrong gets a row that says so, and no times. Memory is measured for training, in processes of their own.
"""

from __future__ import annotations

import gc
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata

from cgverify import __version__
from cgverify.bench import measure
from cgverify.bench.cases import CASES, REDUCED, Case, Workload
from cgverify.bench.measure import Effort, Timing, time_first, time_in_turn
from cgverify.bench.memory import with_memory
from cgverify.bench.peers import CGVERIFY, COMPILE, COPYING, EAGER, FLOOR, PEERS, THUNDER, Peer, ThunderPeer, make_peer
from cgverify.bench.rows import FAILED, LEFT_OUT, NO_EXECUTOR, WRONG, Row, Safety, with_ratios

import torch

FULL_SECONDS, QUICK_SECONDS = 150.0, 35.0

WHOLE, COMPUTATION, PROLOGUE = "whole", "computation", "prologue"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run is made.

    Attributes:
        device: `cuda` or `emulated`.
        effort: how much is measured.
        seconds: after which no further case or executor is begun.
    """

    device: str
    effort: Effort
    seconds: float


def choose_settings(device: str, *, quick: bool, seconds: float | None = None) -> Settings:
    """The settings of a run: on the emulation always the least effort, since its times say nothing."""
    effort = measure.REDUCED if device == "emulated" else measure.QUICK if quick else measure.FULL
    return Settings(device, effort, seconds or (QUICK_SECONDS if quick else FULL_SECONDS))


def cases_for(device: str) -> tuple[Case, ...]:
    """All cases that there are on a device."""
    return REDUCED if device == "emulated" else CASES


def describe_machine(device: str) -> dict[str, str]:
    """What ran: the device and the versions."""
    return {
        "device": "emulated: times say nothing" if device == "emulated" else torch.cuda.get_device_name(),
        "torch": str(torch.__version__),
        "thunder": metadata.version("lightning-thunder"),
        "cgverify": __version__,
        "python": platform.python_version(),
    }


def run_cases(cases: Sequence[Case], settings: Settings) -> Iterator[tuple[Case, list[Row]]]:
    """The rows of each case, its ratios among them, as soon as it is done."""
    deadline = time.monotonic() + settings.seconds
    for case in cases:
        yield case, with_ratios(_run_case(case, settings, deadline))


def _run_case(case: Case, settings: Settings, deadline: float) -> list[Row]:
    among_thunders = tuple(peer for peer in PEERS if peer not in (EAGER, COMPILE))
    groups = [(NO_EXECUTOR, (EAGER,)), *((e, among_thunders) for e in case.executors), (NO_EXECUTOR, (COMPILE,))]
    workload: Workload | None = None
    expected: list[list[torch.Tensor]] = []
    rows: list[Row] = []
    for executor, peers in groups:
        blank = [Row(case.name, executor, peer) for peer in peers]
        reason = _reason_to_leave_out(case, peers, settings, deadline)
        if reason:
            rows += [replace(row, status=LEFT_OUT, remark=reason) for row in blank]
            continue
        if workload is None:
            workload = case.make()
            eager = make_peer(EAGER, workload, NO_EXECUTOR)
            expected = [_on_host(eager.results(inputs)) for inputs in workload.inputs]
        if workload.parameters:
            blank = [row for row in blank if row.peer != COPYING]  # in training inputs are copied anyway
        rows += _run_group(blank, workload, expected, settings)
        gc.collect()
        if settings.device != "emulated":
            torch._dynamo.reset()  # or torch.compile keeps its graphs and their memory
    is_training = workload is not None and bool(workload.parameters)
    return with_memory(rows) if is_training and settings.device != "emulated" else rows


def _reason_to_leave_out(case: Case, peers: Sequence[str], settings: Settings, deadline: float) -> str:
    if COMPILE in peers and settings.device == "emulated":
        return "the emulation does not compile"
    if COMPILE in peers and not case.compiled:
        return "it is not compiled here: that takes longer than all other peers together"
    if time.monotonic() > deadline:
        return f"the limit of {settings.seconds:.0f} s was reached: raise --seconds or choose --cases"
    return ""


def _run_group(
    blank: Sequence[Row], workload: Workload, expected: Sequence[Sequence[torch.Tensor]], settings: Settings
) -> list[Row]:
    """Makes peers ready one by one, times those that are right in turn, and gives a row for each of `blank`."""
    rows: list[Row] = []
    peers: dict[str, Peer] = {}
    functions: dict[tuple[str, str], Callable[[], object]] = {}
    inputs = workload.inputs[0]
    for start in blank:
        row = start
        try:
            peer, row = _make_ready(row, workload, expected, peers.get(THUNDER))
            if peer is not None:
                made = {WHOLE: peer.whole(inputs), COMPUTATION: peer.computation(inputs)}
                made[PROLOGUE] = peer.prologue(inputs) if row.peer == CGVERIFY else None
                functions |= {(row.peer, what): function for what, function in made.items() if function is not None}
                peers[row.peer] = peer
        except Exception as error:  # a peer may fail in any way; the row says how
            row = replace(start, status=FAILED, remark=_one_line(error))
        rows.append(row)
    timings = _time(functions, settings.effort)
    return [_with_timings(row, timings, peers.get(row.peer), workload, settings) for row in rows]


def _make_ready(
    row: Row, workload: Workload, expected: Sequence[Sequence[torch.Tensor]], ungraphed: Peer | None
) -> tuple[Peer | None, Row]:
    """Calls a peer on each set of inputs; None for one that is wrong."""
    times: list[float] = []
    peer = make_peer(row.peer, workload, row.executor, ungraphed)
    for inputs, wanted in zip(workload.inputs, expected, strict=True):
        results, milliseconds = time_first(partial(peer.results, inputs))
        times.append(milliseconds)
        difference = _difference(_on_host(results), wanted, workload.tolerance)
        del results
        if difference:
            return None, replace(row, status=WRONG, remark=f"call {len(times)} differs from eager: {difference}")
    if row.peer == FLOOR:  # Thunder compiled it before, or compiles it now: neither is the floor's doing
        return peer, row
    return peer, replace(row, first_ms=times[0], ready_ms=sum(times))


def _time(functions: dict[tuple[str, str], Callable[[], object]], effort: Effort) -> dict[tuple[str, str], Timing]:
    """Whole calls and prologues in turn, then computations in turn, without autograd, as Thunder executes them."""
    computations = {key: function for key, function in functions.items() if key[1] == COMPUTATION}
    timings = time_in_turn({key: f for key, f in functions.items() if key not in computations}, effort)
    with torch.no_grad():
        return timings | time_in_turn(computations, effort)


def _with_timings(
    row: Row,
    timings: dict[tuple[str, str], Timing],
    peer: Peer | None,
    workload: Workload,
    settings: Settings,
) -> Row:
    whole, computation, prologue = (timings.get((row.peer, what)) for what in (WHOLE, COMPUTATION, PROLOGUE))
    row = replace(row, whole=whole, computation=computation, prologue=prologue)
    if row.peer == CGVERIFY and workload.parameters:
        row = replace(row, fresh_bytes=sum(t.nbytes for t in (*workload.inputs[0], *workload.parameters)))
    copies_inputs = row.peer == (CGVERIFY if workload.parameters else COPYING)
    if not copies_inputs or not isinstance(peer, ThunderPeer):
        return row
    try:
        return replace(row, safety=_measure_safety(peer, workload, settings.effort))
    except Exception as error:  # the rest of the row stands
        return replace(row, remark=f"what safety costs could not be measured: {_one_line(error)}")


def _measure_safety(peer: ThunderPeer, workload: Workload, effort: Effort) -> Safety | None:
    """Times each region against a raw graph of its body; None if nothing is graphed."""
    calls = peer.region_calls(workload.inputs[0])
    if not calls:
        return None
    bare = [call.bare() for call in calls]

    def regions() -> None:
        for call in calls:
            call.region(*call.args)

    def graphs() -> None:
        for graph, call in zip(bare, calls, strict=True):
            graph(*call.args)

    with torch.no_grad():
        timings = time_in_turn({"region": regions, "bare": graphs}, effort)
    return Safety(len(calls), timings["region"], timings["bare"])


def _on_host(results: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [result.detach().cpu() for result in results]


def _difference(results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], tolerance: float) -> str:
    """What differs, empty for nothing."""
    if len(results) != len(expected):
        return f"{len(results)} results in place of {len(expected)}"
    for k, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        if result.shape != wanted.shape or result.dtype is not wanted.dtype:
            return f"result {k} is {result.dtype} {tuple(result.shape)}, not {wanted.dtype} {tuple(wanted.shape)}"
        allowed = tolerance * wanted.abs().max().item()
        error = (result - wanted).abs().max().item()
        if not error <= allowed:
            return f"result {k} is off by {error:.3g}, allowed {allowed:.3g}"
    return ""


def _one_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else 'no message'}"
