"""A region as the emitted trace calls it: un-graphed at first, captured at the second call of an entry, replayed after.

An entry is one description of the arguments (`guards.describe`). Its first call runs the body as it is, which also
warms the kernels up; so nothing runs twice, and no state has to be put back. A capture executes nothing. A capture
that fails marks the entry: it stays un-graphed, and says so once.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from cgverify.diagnostics import UngraphedWarning
from cgverify.plan import Region
from cgverify.runtime.body import Body
from cgverify.runtime.cache import EntryKey
from cgverify.runtime.check import copies_of, put_right
from cgverify.runtime.graph import CapturedGraph
from cgverify.runtime.guards import EntryGuard, Refusal, describe, find_refusal, is_captured
from cgverify.runtime.leases import Lender, Lending
from cgverify.runtime.optout import OPEN
from cgverify.runtime.places import Places
from cgverify.runtime.pool import LOCK, EmptyCaptureError
from cgverify.runtime.results import CaptureRefusedError
from cgverify.runtime.runtime import Runtime
from cgverify.runtime.storm import CaptureWatch
from cgverify.runtime.switches import Switches, read_all_switches, read_common_switches

import torch

logger = logging.getLogger("cgverify")

NVTX = "NVTX_INJECTION64_PATH" in os.environ
"""Whether a profiler listens to NVTX ranges: it announces itself by this variable; without it a range costs time."""

RENEWALS = 2
"""How many graphs of a region give way to leases of others before those others stop lending."""

RECENT = 4
"""How many entries a region recognises by a cheap check, the last one looked up first."""


@dataclass(frozen=True, slots=True)
class _Recent:
    """An entry that was graphed, and the cheap check that a call fits it."""

    key: EntryKey
    graph: CapturedGraph
    switches: Switches
    guard: EntryGuard


class GraphedRegion:
    """The callable behind a region's symbol.

    Attributes:
        plan: the region.
        body: the trace of the region's body.
        source: the text of the body that is executed.
    """

    def __init__(
        self, plan: Region, body: Any, run: Body, source: str, runtime: Runtime, *, reads_switches: bool = True
    ) -> None:
        self.plan = plan
        self.body = body
        self.source = source
        self._run = run
        self._runtime = runtime
        self._clock = runtime.cache.clock
        one_device = torch.cuda.device_count() == 1
        self._is_captured = torch.cuda.is_current_stream_capturing if one_device else partial(is_captured, plan.device)
        self._read_switches = read_all_switches if reads_switches else read_common_switches
        self._token = object()
        self._places = Places(plan, runtime)
        self._warm_threads = threading.local()
        self._recent: tuple[_Recent, ...] = ()
        self._lending = Lending()
        self._watch = CaptureWatch(plan)
        self._replays = 0
        self.__name__ = plan.name
        weakref.finalize(self, runtime.drop, self._token).atexit = False

    def __call__(self, *args: torch.Tensor) -> list[torch.Tensor]:
        """Runs the region on its inputs, in order; returns its outputs, in order.

        Raises:
            Exception: what the body raises when it runs un-graphed.
        """
        was_enabled = torch.is_grad_enabled()
        try:
            if was_enabled:
                torch._C._set_grad_enabled(False)  # in C and by name: `no_grad` costs as much as all guards
            if not OPEN and not self._is_captured():
                switches = self._read_switches()
                recent = self._recent
                for entry in recent:
                    if entry.switches == switches and entry.guard.admits(args):
                        if entry is not recent[0] and recent[0].guard.has_rested:
                            self._put_first(entry)
                        with LOCK:
                            graph = entry.graph
                            if not graph.is_open:
                                break
                            if not graph.lenders or not self._gives_way(entry.key, graph):
                                graph.used = next(self._clock)
                                return self._replay(graph, args)
                        return self._ungraphed(args, Refusal.LENT)
            return self._looked_at_closely(args)
        finally:
            if was_enabled:
                torch._C._set_grad_enabled(True)

    def _looked_at_closely(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """A call that fits none of the recent entries: describes its arguments and looks its entry up."""
        refusal = find_refusal(self.plan, args)
        if refusal is not None:
            return self._ungraphed(args, refusal)
        with LOCK:
            switches = self._read_switches()
            self._note_rest(switches, args)
            in_place, key, graph = self._choose_entry(switches, args)
            refusal = self._look_up_mark(key, switches, args, in_place)
            if graph is None and refusal is Refusal.FIRST_CALL and self._is_warm_here():
                graph, refusal = self._capture(key, args, in_place)
                if graph is not None:
                    first = self._first_replay(key, graph, args)
                    if first is not None:
                        return first
                    graph, refusal = None, Refusal.CAPTURE_FAILED
            if graph is not None and graph.lenders and self._gives_way(key, graph):
                graph, refusal = None, Refusal.LENT
            if graph is not None:
                if len(set(map(id, args))) == len(args):  # the guard sees no objects
                    patience = self._places.patience(in_place)
                    self._put_first(_Recent(key, graph, switches, EntryGuard(self.plan, args, in_place, patience)))
                return self._replay(graph, args)
        if graph is None and refusal not in (None, Refusal.FIRST_CALL):
            return self._ungraphed(args, refusal)
        results = self._ungraphed(args, Refusal.FIRST_CALL)
        self._warm_threads.here = True
        with LOCK:
            if self._places.note(args):
                self._recent = ()  # their keys hold the address
            # another thread may have captured the entry, or given it up, in the meantime
            if self._runtime.cache.graph(key) is None and self._runtime.cache.mark(key) is None:
                self._runtime.cache.put_mark(key, Refusal.FIRST_CALL)
        return results

    def _is_warm_here(self) -> bool:
        """Whether this thread has run the body: libraries keep a handle per thread, and a capture can make none."""
        return getattr(self._warm_threads, "here", False)

    def _ungraphed(self, args: Sequence[torch.Tensor], refusal: Refusal) -> list[torch.Tensor]:
        with LOCK:
            self._runtime.tally.ungraphed[refusal.value] += 1
        return list(self._run(*args))

    def _replay(self, graph: CapturedGraph, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if not NVTX:
            results = graph.replay(args)
        else:
            with torch.cuda.nvtx.range(self.plan.name):
                results = graph.replay(args)
        self._replays += 1
        tally = self._runtime.tally
        tally.replays += 1
        tally.copies += graph.copies
        tally.leases += graph.leases
        return results

    def _put_first(self, entry: _Recent) -> None:
        """Makes an entry the one that is looked up first."""
        others = [other for other in self._recent if other.key != entry.key]
        self._recent = (entry, *others[: RECENT - 1])

    def _note_rest(self, switches: Switches, args: Sequence[torch.Tensor]) -> None:
        """Where a recent entry's inputs have come to rest its graph goes: the next one reads them where they lie."""
        for entry in self._recent:
            if entry.graph.is_open and entry.switches == switches and entry.guard.is_at_rest(args):
                _, key, graph = self._choose_entry(switches, args)
                if graph is not None and key != entry.key:
                    return  # there is one already
                if self._places.rest(args):
                    self._runtime.cache.put_mark(entry.key, Refusal.FIRST_CALL)
                else:
                    entry.guard.wait_no_more()
                return

    def _choose_entry(
        self, switches: Switches, args: Sequence[torch.Tensor]
    ) -> tuple[frozenset[int], EntryKey, CapturedGraph | None]:
        """The inputs to read where they lie, the entry, and its graph.

        Inputs at rest are copied where there is a graph for that and none for their addresses: it made room for others,
        and would again.
        """
        choices = [(in_place, self._key(switches, args, in_place)) for in_place in self._places.choices(args)]
        for in_place, key in choices:
            graph = self._runtime.cache.graph(key)
            if graph is not None:
                return in_place, key, graph
        return *choices[0], None

    def choose_lent(self, args: Sequence[torch.Tensor]) -> frozenset[int]:
        """Positions of the inputs that lie in lent graph memory, and are only read."""
        return self._places.choose_lent(args)

    def _key(self, switches: Switches, args: Sequence[torch.Tensor], in_place: frozenset[int]) -> EntryKey:
        return EntryKey(self._token, (switches, *describe(args, in_place)))

    def _look_up_mark(
        self, key: EntryKey, switches: Switches, args: Sequence[torch.Tensor], in_place: frozenset[int]
    ) -> Refusal | None:
        """What is remembered of an entry; kernels that are warm for copied inputs are so for lent ones."""
        mark = self._runtime.cache.mark(key)
        if mark is None and in_place > self._places.static:
            mark = self._runtime.cache.mark(self._key(switches, args, self._places.static))
        return mark

    def _gives_way(self, key: EntryKey, graph: CapturedGraph) -> bool:
        """Whether a replay would overwrite leases that are out; if so the graph is dropped.

        Its entry is captured again at the next call, and then is younger than all lenders there are. Where it was in
        the way of its own leases (several forwards before a backward, say), or graphs of this region gave way before,
        the lender's region stops lending for good. So graphs of a region give way at most once for each of its entries,
        `RENEWALS` times, and once for each region that lends.
        """
        blocker = graph.find_blocker()
        if blocker is None:
            return False
        self._lending.renewals += 1
        if graph.is_lent_by(blocker) or self._lending.renewals > RENEWALS:
            blocker.lending.allowed = False
            if self._runtime.cache.graph(blocker.key) is not None:
                self._runtime.cache.put_mark(blocker.key, Refusal.FIRST_CALL)
        self._runtime.cache.put_mark(key, Refusal.FIRST_CALL)
        logger.debug("%s: un-graphed, for somebody holds graph memory that it would overwrite", self.plan.name)
        return True

    def _capture(
        self, key: EntryKey, args: Sequence[torch.Tensor], in_place: frozenset[int]
    ) -> tuple[CapturedGraph | None, Refusal | None]:
        try:
            with torch.inference_mode(False), torch.no_grad(), torch.cuda.device(self.plan.device):
                pool = self._runtime.pool(self.plan.device)
                with pool.stores_kept_on_success():
                    lender = Lender(key, self._lending)
                    graph = CapturedGraph(self.plan, self._run, args, in_place, pool, lender)
        except EmptyCaptureError:
            self._runtime.cache.put_mark(key, Refusal.EMPTY)
            return None, Refusal.EMPTY
        except CaptureRefusedError as error:
            return None, self._give_up(key, error.refusal, str(error))
        except Exception as error:
            return None, self._give_up(key, Refusal.CAPTURE_FAILED, f"the capture failed with {_in_one_line(error)}")
        self._runtime.tally.captures += 1
        self._runtime.cache.put_graph(key, graph)
        logger.debug("%s: captured", self.plan.name)
        storm = self._watch.note(key.description, self._replays) or self._runtime.describe_thrash()
        if storm is not None:
            _warn(storm, RuntimeWarning)
        return graph, None

    def _first_replay(
        self, key: EntryKey, graph: CapturedGraph, args: Sequence[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """Launches a new graph; None, with arguments and generator as before, if that fails."""
        device = torch.device(self.plan.device)
        state = torch.cuda.get_rng_state(device)
        copies = None
        try:
            if self._runtime.check_first:
                copies = copies_of(args)
            results = self._replay(graph, args)
        except Exception as error:
            torch.cuda.set_rng_state(state, device)
            self._give_up(key, Refusal.CAPTURE_FAILED, f"the first replay failed with {_in_one_line(error)}")
            return None
        if copies is not None:
            difference = put_right(self.plan, self._run, args, results, copies, state)
            if difference is not None:
                reason = f"its first replay differs from the un-graphed body: {difference}"
                self._give_up(key, Refusal.CHECK_FAILED, reason)
        return results

    def _give_up(self, key: EntryKey, refusal: Refusal, reason: str) -> Refusal:
        self._runtime.cache.put_mark(key, refusal)
        self._places.rest_no_more()
        _warn(f"{self.plan.name} runs un-graphed for arguments of this description: {reason}", UngraphedWarning)
        return refusal


def _warn(message: str, category: type[Warning]) -> None:
    logger.warning(message)
    warnings.warn(message, category, stacklevel=5)


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
