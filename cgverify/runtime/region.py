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
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from cgverify.plan import InputRole, Region
from cgverify.runtime.cache import EntryCache, EntryKey
from cgverify.runtime.check import copies_of, put_right
from cgverify.runtime.graph import Body, CapturedGraph, CaptureRefusedError
from cgverify.runtime.guards import EntryGuard, Refusal, describe, find_refusal
from cgverify.runtime.pool import LOCK, EmptyCaptureError, Pool
from cgverify.runtime.stats import RuntimeStats, Tally

import torch

logger = logging.getLogger("cgverify")

NVTX = "NVTX_INJECTION64_PATH" in os.environ
"""Whether a profiler listens to NVTX ranges: it announces itself by this variable; without it a range costs time."""

ADDRESSES_BEFORE_COPY = 2
"""How many addresses a static input may show before it is copied like any other."""


RECENT = 4
"""How many entries a region recognises by a cheap check, the last one looked up first."""


class Runtime:
    """What all regions of one transform share: the cache of graphs and the counts.

    Args:
        max_graphs: most graphs alive at once, over all regions; at least 1.
        check_first: whether the first replay of each graph is compared with the un-graphed body, bit for bit.
    """

    def __init__(self, max_graphs: int, *, check_first: bool = False) -> None:
        self.cache: EntryCache[CapturedGraph, Refusal] = EntryCache(max_graphs)
        self.tally = Tally()
        self.check_first = check_first
        self._pools: dict[str, Pool] = {}

    def pool(self, device: str) -> Pool:
        """The one pool of all graphs on a device."""
        if device not in self._pools:
            self._pools[device] = Pool(torch.device(device))
        return self._pools[device]

    def stats(self) -> RuntimeStats:
        """Counts since the transform was made, and what is held now."""
        with LOCK:
            graphs = list(self.cache.graphs())
            tally = self.tally
            held = sum(graph.bytes_held for graph in graphs)
            return RuntimeStats(tally.captures, tally.replays, tally.copies, dict(tally.ungraphed), len(graphs), held)

    def reset(self) -> None:
        """Drops every graph and its memory; each entry starts again with an un-graphed call."""
        with LOCK:
            self.cache.clear()

    def drop(self, token: Hashable) -> None:
        """Forgets the entries of one region."""
        with LOCK:
            self.cache.drop(token)


@dataclass(frozen=True, slots=True)
class _Recent:
    """An entry that was graphed, and the cheap check that a call fits it."""

    key: EntryKey
    guard: EntryGuard


class GraphedRegion:
    """The callable behind a region's symbol.

    Attributes:
        plan: the region.
        body: the trace of the region's body.
        source: the text of the body that is executed.
    """

    def __init__(self, plan: Region, body: Any, run: Body, source: str, runtime: Runtime) -> None:
        self.plan = plan
        self.body = body
        self.source = source
        self._run = run
        self._runtime = runtime
        self._token = object()
        self._addresses: defaultdict[int, set[int]] = defaultdict(set)
        self._copied: frozenset[int] = frozenset()
        self._warm_threads = threading.local()
        self._recent: tuple[_Recent, ...] = ()
        self._static = [k for k, entry in enumerate(plan.inputs) if entry.role is InputRole.STATIC]
        self.__name__ = plan.name
        weakref.finalize(self, runtime.drop, self._token).atexit = False

    def __call__(self, *args: torch.Tensor) -> list[torch.Tensor]:
        """Runs the region on its inputs, in order; returns its outputs, in order.

        Raises:
            Exception: what the body raises when it runs un-graphed.
        """
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self(*args)
        if not torch.cuda.is_current_stream_capturing():
            for entry in self._recent:
                if entry.guard.admits(args):
                    with LOCK:
                        graph = self._runtime.cache.graph(entry.key)
                        if graph is not None:
                            return self._replay(graph, args)
        return self._looked_at_closely(args)

    def _looked_at_closely(self, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """A call that fits none of the recent entries: describes its arguments and looks its entry up."""
        refusal = find_refusal(self.plan, args)
        if refusal is not None:
            return self._ungraphed(args, refusal)
        with LOCK:
            key = EntryKey(self._token, describe(self.plan, args, self._copied))
            refusal = self._runtime.cache.mark(key)
            graph = self._runtime.cache.graph(key)
            if graph is None and refusal is Refusal.FIRST_CALL and self._is_warm_here():
                graph, refusal = self._capture(key, args)
                if graph is not None:
                    first = self._first_replay(key, graph, args)
                    if first is not None:
                        return first
                    graph, refusal = None, Refusal.CAPTURE_FAILED
            if graph is not None:
                entry = _Recent(key, EntryGuard(self.plan, args, self._copied))
                self._recent = (entry, *self._recent[: RECENT - 1])
                return self._replay(graph, args)
        if graph is None and refusal not in (None, Refusal.FIRST_CALL):
            return self._ungraphed(args, refusal)
        results = self._ungraphed(args, Refusal.FIRST_CALL)
        self._warm_threads.here = True
        with LOCK:
            self._note_addresses(args)
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
        self._runtime.tally.replays += 1
        self._runtime.tally.copies += graph.copies
        return results

    def _capture(self, key: EntryKey, args: Sequence[torch.Tensor]) -> tuple[CapturedGraph | None, Refusal | None]:
        try:
            with torch.inference_mode(False), torch.no_grad(), torch.cuda.device(self.plan.device):
                pool = self._runtime.pool(self.plan.device)
                with pool.stores_kept_on_success():
                    graph = CapturedGraph(self.plan, self._run, args, self._copied, pool)
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
        message = f"{self.plan.name} runs un-graphed for arguments of this description: {reason}"
        logger.warning(message)
        warnings.warn(message, RuntimeWarning, stacklevel=4)
        return refusal

    def _note_addresses(self, args: Sequence[torch.Tensor]) -> None:
        """A static input that keeps moving is copied from now on, instead of costing a capture for each address."""
        for position in self._static:
            seen = self._addresses[position]
            seen.add(args[position].data_ptr())
            if len(seen) > ADDRESSES_BEFORE_COPY:
                self._copied |= {position}
                self._recent = ()  # their keys hold the address
                seen.clear()


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"
