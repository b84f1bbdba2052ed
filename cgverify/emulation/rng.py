"""Random numbers of the emulated device: a generator is a pair (seed, offset), as CUDA's Philox generators are.

A launch draws from a stream that depends on the seed and the offset at its start only, and moves the offset by `STEP`.
A captured launch remembers its offset inside the graph; a replay adds the generator's offset at that moment and then
moves the generator by what the whole graph draws. So a replay draws what eager execution would have drawn.

Generators share a state object: `graphsafe_get_state` hands it out, `graphsafe_set_state` adopts another's, and a graph
stays with the state objects it was captured with, whatever its generators adopt later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cgverify.emulation.calls import Call
from cgverify.emulation.errors import not_capturing_message

import numpy as np
import torch

STEP = 4  # offsets a launch consumes; CUDA's kernels consume multiples of 4
CREATED_SEED = 67280421310721  # the seed of a torch.Generator nobody seeded
_MASK = 2**64 - 1
_draw_lock = threading.RLock()
_source = torch.Generator()  # the CPU generator that draws for ops taking one; always under _draw_lock


class GeneratorState:
    """What generators share and graphs register."""

    __slots__ = ("capturing", "drawn_in_graph", "offset", "seed")

    def __init__(self, seed: int = CREATED_SEED, offset: int = 0, drawn_in_graph: int = 0) -> None:
        self.seed, self.offset, self.drawn_in_graph = seed, offset, drawn_in_graph
        # A capture that fails leaves this set, as torch does, until a capture with this state succeeds.
        self.capturing = False

    def begin_capture(self) -> None:
        """Prepare for the capture of a graph that registered this state."""
        self.capturing, self.drawn_in_graph = True, 0

    def end_capture(self) -> int:
        """Return by how much a replay of the captured graph moves the offset."""
        self.capturing = False
        return self.drawn_in_graph

    def advance(self, in_capture: bool) -> int:
        """Return the offset of the next launch (inside the graph, during a capture) and move past it."""
        with _draw_lock:
            if not in_capture:
                start = self.offset
                self.skip(STEP)
                return start
            if not self.capturing:
                raise RuntimeError("Attempt to increase offset for a CUDA generator not in capture mode.")
            start, self.drawn_in_graph = self.drawn_in_graph, self.drawn_in_graph + STEP
            return start

    def skip(self, amount: int) -> None:
        """Move the offset outside a capture."""
        if self.capturing:
            raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")
        self.offset += amount


class Generator(torch.Generator):
    """Stands for torch.Generator("cuda").

    `is_capturing` tells whether the current stream is; some calls are refused then, with torch's texts.
    """

    is_capturing: Callable[[], bool]
    state: GeneratorState

    def __new__(cls, state: GeneratorState, is_capturing: Callable[[], bool]) -> Generator:
        """Make a generator on that state."""
        self: Generator = super().__new__(cls)
        self.state, self.is_capturing = state, is_capturing
        return self

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Always cuda:0."""
        return torch.device("cuda:0")

    def manual_seed(self, seed: int) -> Generator:
        """Seed and rewind; during a capture only the seed it has already is accepted."""
        seed = int(seed) & _MASK
        if self.is_capturing():
            if seed != self.state.seed:
                raise RuntimeError(
                    "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the "
                    "same as the original seed."
                )
            return self
        self.state.seed, self.state.offset = seed, 0
        return self

    def seed(self) -> int:
        """Seed from the operating system."""
        self._refuse_in_capture("Cannot call CUDAGeneratorImpl::seed")
        self.manual_seed(int.from_bytes(np.random.default_rng().bytes(7), "little"))
        return self.state.seed

    def initial_seed(self) -> int:
        """Return the seed."""
        return self.state.seed

    def get_offset(self) -> int:
        """Return the offset."""
        self._refuse_in_capture("Cannot call CUDAGeneratorImpl::get_offset")
        return self.state.offset

    def set_offset(self, offset: int) -> Generator:
        """Set the offset, a multiple of 4."""
        self._refuse_in_capture("Cannot call CUDAGeneratorImpl::set_offset")
        if offset % STEP:
            raise RuntimeError("offset must be a multiple of 4")
        self.state.offset = int(offset)
        return self

    def get_state(self) -> torch.Tensor:
        """Return seed and offset as 16 bytes, uint8[16] on the CPU."""
        state = np.array([self.state.seed, self.state.offset], dtype=np.uint64)
        return torch.from_numpy(state.view(np.uint8))

    def set_state(self, new_state: torch.Tensor) -> Generator:
        """Set seed and offset from uint8[16], or the seed alone from uint8[8]; in a capture the seed must stay."""
        if new_state.dtype is not torch.uint8 or new_state.numel() not in (8, 16):
            raise RuntimeError("RNG state is wrong size")
        seed, *offset = np.frombuffer(bytes(new_state.tolist()), dtype=np.uint64).tolist()
        self.manual_seed(seed)
        self.state.offset = offset[0] if offset else 0
        return self

    def clone_state(self) -> Generator:
        """Return a generator on a copy of the state."""
        self._refuse_in_capture("Cannot call CUDAGeneratorImpl::clone_impl")
        state = self.state
        return Generator(GeneratorState(state.seed, state.offset, state.drawn_in_graph), self.is_capturing)

    def graphsafe_get_state(self) -> Generator:
        """Return a generator on the same state object."""
        return Generator(self.state, self.is_capturing)

    def graphsafe_set_state(self, state: torch.Generator) -> Generator:
        """Adopt another generator's state object; graphs captured so far stay with the old one."""
        if not isinstance(state, Generator):
            raise RuntimeError("Expected a CUDA Generator")
        self.state = state.state
        return self

    def _refuse_in_capture(self, what: str) -> None:
        if self.is_capturing():
            raise RuntimeError(not_capturing_message(what))


def stream_seed(seed: int, offset: int) -> int:
    """Return the 32-bit seed of the launch at `offset`: splitmix64 of both."""
    z = (seed + 0x9E3779B97F4A7C15 * (offset + 1)) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) & 0xFFFFFFFF


def draw(call: Call, seed: int) -> Any:
    """Run a random CPU op on the stream `seed`, leaving torch's default CPU generator as it was."""
    with _draw_lock:
        if call.info.takes_generator:
            return call.changed(generator=_source.manual_seed(seed)).run()
        default = torch.default_generator
        saved = default.get_state()
        default.manual_seed(seed)
        try:
            return call.run()
        finally:
            default.set_state(saved)
