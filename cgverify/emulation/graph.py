"""torch.cuda.CUDAGraph: a capture records launches without running them, a replay runs them on the same addresses.

A launch holds the op, its Python scalars and 0-dim CPU tensors as they were, and raw views of the arena for tensors:
addresses only. A graph keeps no tensor alive, so a freed input is read as whatever lies there when the graph is
replayed, as on a GPU. What it does keep is its memory pool.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from cgverify.emulation.blocks import GENERAL, Block, Pool, PoolId
from cgverify.emulation.capture import Capture, Handover, Launch
from cgverify.emulation.current import active
from cgverify.emulation.errors import CaptureError, UseAfterFree, not_capturing_message
from cgverify.emulation.rng import Generator, GeneratorState

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA


class CUDAGraph:
    """torch.cuda.CUDAGraph."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._cuda: EmulatedCUDA = active()
        self._keep_graph = keep_graph
        self._program: list[Launch | Handover] | None = None
        self._launches: list[Launch] = []
        self._external: dict[Block, tuple[int, str]] = {}
        self._pool: Pool | None = None
        self._states: dict[GeneratorState, int] = {}  # and by how much a replay moves each
        self._capture: Capture | None = None
        self._check_liveness = False

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Let captures of this graph draw from the generator."""
        if not isinstance(generator, Generator):
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        if self._cuda.capturing is not None:
            raise RuntimeError(not_capturing_message("Cannot register the state during capturing stage."))
        self._states.setdefault(generator.state, 0)

    def capture_begin(
        self, pool: PoolId | None = None, capture_error_mode: str = "global", check_input_liveness: bool = False
    ) -> None:
        """Record what the current stream is given from now on, with results in the memory pool `pool`."""
        cuda = self._cuda
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        with cuda.lock:
            if self._program is not None:
                raise RuntimeError(
                    "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new "
                    "instance."
                )
            self.register_generator_state(cuda.default_generator)
            stream_id = cuda.thread.stream_id
            if stream_id == 0:
                raise RuntimeError(
                    "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                    "them on the default stream.)"
                )
            if cuda.capture is not None:
                raise RuntimeError("another capture is under way: CUDA graphs must be captured one at a time")
            chosen = cuda.new_pool_id(own=True) if pool is None or pool == GENERAL else pool
            owner = cuda.memory.allocator.pool(chosen)
            if owner.was_used and not owner.use_count:
                raise RuntimeError("it->second->use_count > 0 INTERNAL ASSERT FAILED: the pool's last graph is gone")
            for state in self._states:
                state.begin_capture()
            owner.use_count += 1
            owner.was_used = owner.is_recording = True
            self._check_liveness = check_input_liveness
            self._capture = Capture(self, owner, stream_id, capture_error_mode, clocks={stream_id: {}})
            cuda.capture = self._capture

    def capture_end(self) -> None:
        """Stop recording; a capture that was invalidated raises and leaves the graph empty.

        Its memory pool is then held for good, as on a GPU.
        """
        cuda, capture = self._cuda, self._capture
        if capture is None or cuda.capture is not capture:
            raise CaptureError(CaptureError.ILLEGAL_STATE)
        if cuda.thread.stream_id != capture.stream_id:
            raise RuntimeError("Capture must end on the same stream it began on.")
        with cuda.lock:
            cuda.capture = self._capture = None
            if capture.is_invalid or not capture.is_joined():
                capture.forbid(CaptureError.UNJOINED)
            self._states = {state: state.end_capture() for state in self._states}
            self._program, self._external, self._pool = capture.program, capture.external, capture.pool
            capture.pool.is_recording = False
            self._launches = [step for step in capture.program if isinstance(step, Launch)]
        if not self._launches:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=2,
            )

    def instantiate(self) -> None:
        """Do nothing: an emulated graph is ready when its capture ends."""
        if self._program is None:
            raise RuntimeError("capture_end() must have been called before calling instantiate")

    def replay(self) -> None:
        """Run the recorded launches."""
        cuda = self._cuda
        if self._program is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        if cuda.capturing is not None:
            raise RuntimeError(not_capturing_message("Cannot prepare for replay during capturing stage."))
        if cuda.strict or self._check_liveness:
            self._check_external_memory()
        start: dict[GeneratorState, tuple[int, int]] = {}
        for state, drawn in self._states.items():
            start[state] = (state.seed, state.offset)
            if drawn:
                state.skip(drawn)
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch._C._AutoDispatchBelowAutograd():
            for step in self._program if cuda.poison else self._launches:
                if isinstance(step, tuple):
                    cuda.memory.fill(*step)
                else:
                    step.run(start)
        cuda.stats["replays"] += 1

    def reset(self) -> None:
        """Drop the captured graph and its hold on the memory pool."""
        if self._program is not None:
            self._release()

    def pool(self) -> PoolId:
        """Return the id of the graph's memory pool."""
        if self._program is None or self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool.id

    def enable_debug_mode(self) -> None:
        """Do nothing: `debug_dump` always works."""

    def debug_dump(self, debug_path: str) -> None:
        """Write one line per launch, with addresses and shapes, to a text file."""
        Path(debug_path).write_text("".join(f"{launch}\n" for launch in self._launches), encoding="utf-8")

    def _check_external_memory(self) -> None:
        """Refuse to touch freed memory, but for the graph's own pool.

        That memory stays put while the pool lives, freed or not, and forward/backward pairs rely on it.
        """
        for block, (serial, op) in self._external.items():
            if block.pool is not self._pool and (block.free or block.serial != serial):
                raise UseAfterFree(
                    f"replay would touch memory at {self._cuda.memory.base + block.offset:#x} that was freed after the "
                    f"capture ({op} uses it first): keep the tensor alive as long as the graph, or capture again"
                )

    def _release(self) -> None:
        self._program, self._launches, self._external = None, [], {}
        if self._pool is not None:
            self._pool.use_count -= 1
            self._pool = None

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None:
            self._release()
