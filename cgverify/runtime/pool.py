"""Memory pools as exclusion domains, and captures that leave stream, generator and allocator usable if they fail.

`torch.cuda.graph` is not used: when a capture fails, its `__exit__` raises before it restores the caller's stream.
One process-wide lock serialises captures, replays and graph destruction: torch registers every graph with the
generator of its device, and that registration is not safe against a capture in another thread.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cgverify.runtime.capture_stream import CaptureStream
from cgverify.runtime.disposal import dispose, dispose_of_waiting, put_off
from cgverify.runtime.layout import ALIGNMENT, alignment, buffer_in, span, storage_address
from cgverify.runtime.leases import Lender, prune
from cgverify.runtime.room import Room
from cgverify.runtime.turn import Turn

import torch

logger = logging.getLogger("cgverify")

LOCK = threading.RLock()

MOST_STREAMS = 4
"""How many streams a pool captures on: more than one after captures that failed while it had graphs."""


class EmptyCaptureError(Exception):
    """The captured body launched no device work: all its results are views, or without elements."""


class Pool:
    """One exclusion domain: device memory of graphs that never run at the same time.

    Graphs of one pool use the same scratch memory, and the same static buffers where those are large enough. That is
    safe because nothing stays live in the pool between calls but what is lent: under the lock, each call copies in,
    replays and copies out, ordered on the device after the call before it (`turn`). Leases keep the graphs that may
    overwrite them from replaying (`leases`).

    Attributes:
        device: where the memory is.
        turn: the order of calls on the device.
        serial: captures so far, and so the number of the last graph captured.
        lenders: graphs that keep results, and closed ones whose leases are out, in the order of their captures.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._index = device.index
        self._handle: Any = None
        self._streams: list[CaptureStream] = []  # the last one is for captures with the handle there is
        self.turn = Turn(device)
        self.serial = 0
        self.lenders: list[Lender] = []
        self._stores: list[torch.Tensor] = []
        self._graphs = 0
        self._room = Room(device)
        self._readers: dict[int, torch.cuda.Stream] = {}  # by handle: where leases were handed out and may be read

    def take_turn(self) -> None:
        """To be called before anything of the pool is used; see `Turn.take`.

        Un-graphed work that read a lease is no call: it was enqueued on the stream that got the lease, so that stream
        is waited for as well.
        """
        turn = self.turn
        raw = torch._C._cuda_getCurrentRawStream(self._index)
        if raw != turn.handle:
            turn.take()
        readers = self._readers
        if readers and (len(readers) > 1 or raw not in readers):
            for handle, stream in readers.items():
                if handle != raw:
                    self.turn.stream.wait_stream(stream)
            if not any(lender.is_out() for lender in self.lenders[:]):  # a copy, as in `leases`
                readers.clear()

    def note_reader(self) -> None:
        """Says that the call whose turn it is hands out leases."""
        self._readers[self.turn.handle] = self.turn.stream

    def lend(self, lender: Lender, kept: Sequence[torch.Tensor]) -> None:
        """Lets the lender lend these results of the graph captured last, each alone in its storage."""
        prune(self.lenders)
        lender.open(self.serial, kept)
        self.lenders.append(lender)

    def is_lent(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies on a storage that a graph of this pool keeps."""
        address = storage_address(tensor)
        return any(lender.keeps(address) for lender in self.lenders[:])

    def buffers_like(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Static buffers for one graph: uninitialised, with each tensor's size, strides, dtype and alignment.

        The buffers do not overlap each other, but may overlap those of other graphs of the pool: each takes the
        smallest store of another graph that is large enough and at most twice as large, or else a new one.
        """
        spare = sorted(self._stores, key=torch.Tensor.numel)
        buffers: list[torch.Tensor] = []
        for tensor in tensors:
            room = _bytes_for(tensor)
            fitting = next((k for k, store in enumerate(spare) if room <= store.numel() <= 2 * room), None)
            if fitting is None:
                store = torch.empty(room, dtype=torch.uint8, device=self.device)
                self._stores.append(store)
            else:
                store = spare.pop(fitting)
            buffers.append(buffer_in(store, tensor))
        return buffers

    @contextlib.contextmanager
    def stores_kept_on_success(self) -> Iterator[None]:
        """Gives back, if the block raises, the stores that were made in it: no graph came to use them."""
        before = list(self._stores)
        try:
            yield
        except BaseException:
            self._stores = [store for store in self._stores if any(store is old for old in before)]
            raise

    def capture(
        self, body: Callable[..., Sequence[torch.Tensor]], buffers: Sequence[torch.Tensor], needs: int = 0
    ) -> tuple[torch.cuda.CUDAGraph, Sequence[torch.Tensor], int]:
        """Captures `body(*buffers)`; nothing is executed.

        Args:
            body: what to capture.
            buffers: what to capture it on.
            needs: bytes that the body's large values are known to take at once.

        Returns:
            The graph, the body's results, which lie in the pool's memory or in `buffers`, and the bytes that they keep.

        Raises:
            EmptyCaptureError: the body launched nothing.
            Exception: whatever the capture raised. Stream, generator and allocator are usable again by then.
        """
        with _garbage_collection_paused():
            dispose_of_waiting()
            if self._handle is None:
                stream = self._choose_stream()
                self._streams.append(stream)
                self._handle = torch.cuda.graph_pool_handle()
            self._graphs += 1  # from here on, so that no graph that goes meanwhile is the last one
            try:
                with put_off():
                    return self._capture(body, buffers, needs)
            except BaseException:
                self._graphs -= 1
                self._forget_handle_of_no_graph()
                raise

    def _capture(
        self, body: Callable[..., Sequence[torch.Tensor]], buffers: Sequence[torch.Tensor], needs: int
    ) -> tuple[torch.cuda.CUDAGraph, Sequence[torch.Tensor], int]:
        graph = torch.cuda.CUDAGraph()
        caller, stream = torch.cuda.current_stream(self.device), self._streams[-1].stream
        self.take_turn()
        stream.wait_stream(caller)
        self._streams[-1].prepare()
        allocated = torch.cuda.memory_allocated(self.device)
        try:
            with torch.cuda.stream(stream):
                graph.capture_begin(pool=self._handle, capture_error_mode="thread_local")
                try:
                    self._room.make(needs)
                    results = body(*buffers)
                except BaseException:
                    # the error that matters is the body's; ending an invalidated capture raises a second one
                    with contextlib.suppress(RuntimeError):
                        _end_capture(graph)
                    raise
                is_empty = _end_capture(graph)
        except BaseException:
            self._abandon()
            release_generator(self.device, stream)
            raise
        kept = max(0, torch.cuda.memory_allocated(self.device) - allocated)
        caller.wait_stream(stream)
        if is_empty:
            graph.reset()
            raise EmptyCaptureError
        self.serial += 1
        self._room.keep(graph, kept)
        return graph, results, kept

    def _choose_stream(self) -> CaptureStream:
        """A stream for captures with a new handle: after many that failed, an old one again, without workspaces."""
        if len(self._streams) < MOST_STREAMS:
            return CaptureStream(self.device)
        stream = self._streams.pop(0)
        stream.spoil()
        return stream

    def dispose(self, graph: torch.cuda.CUDAGraph) -> None:
        """Gives a graph's memory back, now or, while somebody captures, later; the stores go with the last graph."""
        self._graphs -= 1
        self._room.drop(graph)
        prune(self.lenders)
        stores: list[torch.Tensor] = []
        if not self._graphs:
            stores, self._stores = self._stores, []
        self._forget_handle_of_no_graph()
        dispose(graph, self.turn.stream, stores)

    def _forget_handle_of_no_graph(self) -> None:
        """Torch refuses further captures in a pool whose last graph is gone, so the next one gets a new handle."""
        if not self._graphs:
            self._handle = None
            self._room.forget()
            while self._streams:
                self._streams.pop().give_back()

    def _abandon(self) -> None:
        """Ends a failed capture's hold on the allocator: an invalidated capture ends before it lets go of its pool.

        A capture that did let go gives the pool back itself, when its graph dies; to do it twice aborts the process.
        """
        try:
            torch._C._cuda_endAllocateToPool(self.device.index, self._handle)
        except RuntimeError:
            logger.debug("the failed capture had let go of its pool")
        else:
            torch._C._cuda_releasePool(self.device.index, self._handle)
        self._handle = None  # whatever state the failure left that pool in, the next graph starts in another
        self._room.forget()


def _end_capture(graph: torch.cuda.CUDAGraph) -> bool:
    """Ends a capture that went well; returns whether it is empty, which torch says by a warning alone."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        graph.capture_end()
    empty = [warning for warning in said if str(warning.message).startswith("The CUDA Graph is empty")]
    for warning in said:
        if warning not in empty:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return bool(empty)


def _bytes_for(tensor: torch.Tensor) -> int:
    """Bytes of a store in which a buffer for `tensor` can lie at its alignment; a multiple of `ALIGNMENT`."""
    used = span(tensor.size(), tensor.stride()) * tensor.element_size() + alignment(tensor)
    return -(-max(used, 1) // ALIGNMENT) * ALIGNMENT


def release_generator(device: torch.device, stream: torch.cuda.Stream) -> None:
    """Takes the device's default generator out of the capture mode in which a failed capture leaves it.

    A capture that succeeds resets the mode and moves neither seed nor offset. Should even that fail, the generator gets
    a clone of its state, which is not in capture mode; graphs captured earlier that draw numbers then fail at replay.

    Args:
        device: the device of the failed capture.
        stream: a side stream to capture on.
    """
    scratch = torch.zeros(1, device=device)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.stream(stream), _garbage_collection_paused():
            graph.capture_begin(capture_error_mode="thread_local")
            scratch.add_(1)
            graph.capture_end()
    except RuntimeError:
        generator = torch.cuda.default_generators[device.index or 0]
        generator.graphsafe_set_state(generator.clone_state())


@contextlib.contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    # a collection may destroy somebody's graph or event, which a stream in capture does not survive
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
