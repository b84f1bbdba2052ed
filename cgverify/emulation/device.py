"""`EmulatedCUDA`: puts the emulated device in force, and holds its state."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

from cgverify.emulation import current
from cgverify.emulation.arena import Arena, extent
from cgverify.emulation.blocks import Block, PoolId
from cgverify.emulation.calls import PLAIN, Call, is_fake
from cgverify.emulation.capture import Capture
from cgverify.emulation.errors import HostCopyError, not_capturing_message
from cgverify.emulation.modes import HOST, DispatchMode, FunctionMode, Placement
from cgverify.emulation.patches import PatchSet, torch_patches
from cgverify.emulation.rng import Generator, GeneratorState
from cgverify.emulation.streams import STREAMS

import torch

_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_unwrap = torch._C._functorch.get_unwrapped


class _Thread(threading.local):
    """What each thread has of its own."""

    def __init__(self) -> None:
        self.stream_id = 0
        self.placement: Placement = HOST
        self.transfer: tuple[bool, bool] | None = None  # (to the device?, non_blocking) of a `.to()` under way
        self.dispatch_mode: DispatchMode | None = None  # None: the thread has not entered the emulation


class EmulatedCUDA:
    """A CUDA device on the CPU: inside the `with` block torch.cuda and `device="cuda"` mean an emulated device.

    One at a time in a process. torch's modes belong to the thread that enters; another thread takes part with
    `with cuda.in_thread():`.

    Args:
        poison: fill new and freed memory with 0xFF (NaN in every floating-point type), at replay too, so that reading
            memory that nobody wrote shows.
        strict: a replay raises `UseAfterFree` if memory outside the graph's own pool was freed since its capture.
        capacity: bytes of device memory; only what is touched costs memory.
        available: what torch.cuda.is_available() says.

    Attributes:
        stats: counts of "ops" run or recorded, launches "recorded", "replays" and "syncs" (waits for the device).
        unjudged_ops: names of ops that were captured though no GPU answer on file says whether that is legal.

    """

    def __init__(
        self, *, poison: bool = False, strict: bool = False, capacity: int = 1 << 30, available: bool = True
    ) -> None:
        self.poison, self.strict, self.capacity, self.available = poison, strict, capacity, available
        self.stats = {"ops": 0, "recorded": 0, "replays": 0, "syncs": 0}
        self.unjudged_ops: set[str] = set()
        self.lock = threading.RLock()
        self.thread = _Thread()
        self.capture: Capture | None = None
        self.memory = Arena(capacity)
        self.memory.allocator.on_allocate, self.memory.allocator.on_free = self._note_allocate, self._note_free
        self.function_mode = FunctionMode(self)
        self._generators: weakref.WeakValueDictionary[int, Generator] = weakref.WeakValueDictionary()
        self.default_generator = self.new_generator(seed=0)
        self._ids = itertools.count(1)
        self._streams = itertools.count()
        self._patches = PatchSet()
        self._exit = ExitStack()

    def __enter__(self) -> EmulatedCUDA:
        current.activate(self)
        with ExitStack() as stack:
            stack.callback(current.deactivate)
            stack.callback(self._patches.restore)
            self._patches.apply(torch_patches(self))
            stack.enter_context(self.in_thread())
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._exit.__exit__(*exception)

    @staticmethod
    def current() -> EmulatedCUDA | None:
        """Return the device in force, if any."""
        return current.in_force()

    @contextmanager
    def in_thread(self) -> Iterator[EmulatedCUDA]:
        """Take part in the emulation from another thread, whose current stream is the default one at first."""
        if current.active() is not self:
            raise RuntimeError("another EmulatedCUDA is active: in_thread() belongs to the one in force")
        if self.thread.dispatch_mode is not None:
            raise RuntimeError("this thread takes part in the emulation already: call in_thread() in another one")
        self.thread.stream_id = 0
        try:
            with DispatchMode(self) as self.thread.dispatch_mode, FunctionMode(self):
                yield self
        finally:
            self.thread.dispatch_mode = None

    # Memory

    @cached_property
    def pinned_memory(self) -> Arena:
        """Pinned host memory: a host tensor is pinned if and only if its address lies in this arena."""
        return Arena(self.capacity, name="pinned host memory")

    def is_on_device(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies in device memory."""
        if is_fake(tensor):
            return False
        try:
            address = tensor.data_ptr()
        except RuntimeError:  # no storage of its own: a functorch wrapper, a sparse or a fake tensor
            return _is_wrapped(tensor) and self.is_on_device(_unwrap(tensor))
        return self.memory.owns(address or _storage_address(tensor))

    def is_pinned(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies in pinned host memory."""
        return "pinned_memory" in self.__dict__ and self.pinned_memory.owns(tensor.data_ptr())

    def empty(self, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Return a fresh device tensor, from the memory pool of the capture under way if there is one."""
        nbytes = extent(size, stride) * dtype.itemsize
        if not nbytes:
            return self.memory.tensor(None, size, stride, dtype)
        capture = self.capturing
        pool = self.memory.allocator.general if capture is None else capture.pool
        return self.memory.tensor(self.memory.allocate(nbytes, pool, self.thread.stream_id), size, stride, dtype)

    def empty_like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a fresh device tensor of the same size, strides and dtype."""
        return self.empty(tensor.size(), tensor.stride(), tensor.dtype)

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy in pinned host memory."""
        pinned = self.pinned_memory
        nbytes = extent(tensor.size(), tensor.stride()) * tensor.element_size()
        block = pinned.allocate(nbytes, pinned.allocator.general, 0) if nbytes else None
        return pinned.tensor(block, tensor.size(), tensor.stride(), tensor.dtype).copy_(tensor)

    def new_pool_id(self, own: bool = False) -> PoolId:
        """Return the id of a new memory pool: (0, n) for a handle, (n, 0) for a graph's own."""
        number = next(self._ids)
        return (number, 0) if own else (0, number)

    def _note_allocate(self, block: Block) -> None:
        capture = self.capturing
        if capture is not None and block.pool is capture.pool:
            block.capture = capture
            capture.program.append((block.offset, block.size))
        if self.poison:
            self.memory.fill(block.offset, block.size)

    def _note_free(self, block: Block) -> None:
        capture = self.capture
        if capture is not None and block.capture is capture:
            capture.program.append((block.offset, block.size))
        elif self.poison and block.pool is self.memory.allocator.general:
            self.memory.fill(block.offset, block.size)

    # Streams and captures

    @property
    def capturing(self) -> Capture | None:
        """The capture that this thread's current stream takes part in."""
        capture = self.capture
        return capture if capture is not None and self.thread.stream_id in capture.clocks else None

    def capture_on(self, stream_id: int) -> Capture | None:
        """Return the capture that the stream takes part in."""
        capture = self.capture
        return capture if capture is not None and stream_id in capture.clocks else None

    def next_stream_id(self) -> int:
        """Return the id of the stream that torch would hand out next."""
        return 1 + next(self._streams) % STREAMS

    def wait_for_device(self) -> None:
        """Wait for the whole device; raises `CaptureError` while anything is captured."""
        self.stats["syncs"] += 1
        if self.capture is not None:
            self.capture.forbid()

    def wait_for_stream(self, stream_id: int) -> None:
        """Wait for a stream; raises `CaptureError` if the capture under way forbids that."""
        self.stats["syncs"] += 1
        if self.capture is not None and self.capture.forbids_waiting(stream_id):
            self.capture.forbid()

    def wait_for_current_stream(self) -> None:
        """Wait for this thread's current stream, as ops do that hand values to the host."""
        self.wait_for_stream(self.thread.stream_id)

    def check_host_copy(self, is_pinned: bool, non_blocking: bool) -> None:
        """Check a copy between device and host against the capture under way.

        Raises `HostCopyError` for pageable host memory; `CaptureError` for a copy that waits.
        """
        if self.capturing is not None and not is_pinned:
            raise HostCopyError(HostCopyError.TEXT)
        if not non_blocking:
            self.wait_for_current_stream()

    # Random numbers

    def new_generator(self, seed: int | None = None) -> Generator:
        """Return a new device generator, with torch's seed for unseeded ones by default; refused in a capture."""
        if self.capturing is not None:
            raise RuntimeError(not_capturing_message("Cannot construct a new CUDAGeneratorImpl"))
        state = GeneratorState() if seed is None else GeneratorState(seed)
        generator = Generator(state, lambda: self.capturing is not None)
        self._generators[generator._cdata] = generator  # type: ignore[attr-defined]
        return generator

    def generator_of(self, call: Call) -> Generator:
        """Return the generator that a random op draws from; raises RuntimeError, as torch does, for a CPU generator."""
        given = call.kwargs.get("generator")
        if given is None:
            return self.default_generator
        # C++ may hand over another wrapper of the generator
        found = given if isinstance(given, Generator) else self._generators.get(given._cdata)
        if found is None:
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        return found


def _storage_address(tensor: torch.Tensor) -> int:
    """Return the storage's address, which tells a zero-size tensor's place; 0 if there is none."""
    if type(tensor) not in PLAIN or tensor.is_meta or tensor.layout is not torch.strided or tensor._is_zerotensor():
        return 0
    return tensor.untyped_storage().data_ptr()
