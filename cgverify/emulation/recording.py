"""Recording: allocate what an op would return, and note the launch with addresses in place of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cgverify.emulation.calls import Call, flat_results, map_tensors
from cgverify.emulation.capture import Capture, Launch
from cgverify.emulation.ops import describe
from cgverify.emulation.rng import draw
from cgverify.emulation.scratch import Scratch, meta_like, zeros_like

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA


def record(cuda: EmulatedCUDA, capture: Capture, call: Call) -> Any:
    """Allocate the op's results from the capture's memory pool and note the launch."""
    info, random = call.info, None
    if info.is_random:
        state = cuda.generator_of(call).state
        random = (state, state.advance(in_capture=True))
        if info.takes_generator:
            call = call.changed(generator=None)
    written = [call.argument(where) for where in info.returns]
    outputs: list[torch.Tensor | None] = []
    result: Any = None
    like: Any = dry_run(call) if written or info.is_mutable else None
    if written and all(target is not None for target in written):
        result = written[0] if len(written) == 1 else tuple(written)
    elif written:
        if len(written) == 1:
            result = map_tensors(cuda.empty_like, like)
        else:
            pairs = zip(written, like, strict=True)
            result = tuple(map_tensors(cuda.empty_like, value) if w is None else w for w, value in pairs)
        raw = cuda.memory.raw_view
        outputs = [None if t is None or any(t is w for w in written) else raw(t) for t in flat_results(result)]
    _note_external(cuda, capture, call)
    if not info.is_empty and _has_elements(result):  # else an allocation, or nothing to compute: no kernel
        capture.add(Launch(_bake(cuda, call), outputs, random), cuda.thread.stream_id)
        cuda.stats["recorded"] += 1
    return result


def _has_elements(result: Any) -> bool:
    """Whether there is anything to compute: CUDA has no launch without threads, so every op checks."""
    tensors = [tensor for tensor in flat_results(result) if tensor is not None]
    return not tensors or any(tensor.numel() for tensor in tensors)


def record_transfer(cuda: EmulatedCUDA, capture: Capture, target: torch.Tensor, source: torch.Tensor) -> None:
    """Note a copy between device and pinned host memory."""

    def raw(tensor: torch.Tensor) -> torch.Tensor:
        return (cuda.memory if cuda.is_on_device(tensor) else cuda.pinned_memory).raw_view(tensor)

    copy = torch.ops.aten.copy_.default
    call = Call(copy, describe(copy), (target, source), {})
    dry_run(call)
    _note_external(cuda, capture, call)
    capture.add(Launch(call.mapped(raw), []), cuda.thread.stream_id)
    cuda.stats["recorded"] += 1


def dry_run(call: Call) -> Any:
    """Return results of the right sizes and strides without touching device memory, or raise the op's error.

    The CPU kernel runs on zeros, which gives the strides that eager execution gives. If it rejects zeros (as a divisor,
    say), ones or the meta kernel decide; if they fail too, the op is wrong, and the first error says why.
    """
    writes = call.info.is_mutable  # then which of the arguments overlap matters, and meta tensors do not tell
    try:
        return _run_scratch(call.mapped(Scratch(call.tensors(), 0) if writes else zeros_like))
    except Exception as error:
        try:
            if writes:
                return _run_scratch(call.mapped(Scratch(call.tensors(), 1)))
            meta = call.mapped(meta_like)
            return (meta.changed(device=torch.device("meta")) if "device" in call.kwargs else meta).run()
        except Exception:
            raise error from None


def _run_scratch(call: Call) -> Any:
    return draw(call, 0) if call.info.is_random else call.run()


def _note_external(cuda: EmulatedCUDA, capture: Capture, call: Call) -> None:
    """Remember the memory that the launch touches and this capture did not allocate."""
    for tensor in call.tensors():
        block = cuda.memory.block_of(tensor)
        if block is not None and block.capture is not capture:
            capture.external.setdefault(block, (block.serial, call.info.name))


def _bake(cuda: EmulatedCUDA, call: Call) -> Call:
    """Return the call on raw views; a 0-dim CPU tensor is read at the launch, so its value goes into the graph."""
    memory = cuda.memory
    baked = call.mapped(lambda tensor: memory.raw_view(tensor) if cuda.is_on_device(tensor) else tensor.clone())
    if "storage_offset" not in call.info.arguments:
        return baked
    # the offset counts from the start of the storage, and a raw view's storage is the arena
    where, start = call.info.arguments.index("storage_offset"), memory.start_of_storage(call.args[0])
    if call.argument(where) is not None:
        return baked._replace(args=(*baked.args[:where], baked.args[where] + start, *baked.args[where + 1 :]))
    offset = call.argument("storage_offset")
    return baked if offset is None else baked.changed(storage_offset=offset + start)
