"""What is replaced in torch while an emulated device is in force.

torch.cuda's Python code stays torch's own as far as it goes: what it calls in C++ is replaced, and the classes whose
C++ bases need a GPU. So `torch.cuda.graph`, `StreamContext`, `memory_stats`, `manual_seed` and the like run unmodified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cgverify.emulation import memory_statistics
from cgverify.emulation.allocator import PoolId
from cgverify.emulation.graph import CUDAGraph
from cgverify.emulation.streams import CUDA_DEVICE_TYPE, Event, ExternalStream, Stream
from cgverify.emulation.transfers import CUDA0

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA

Patch = tuple[Any, str, Any]  # object, attribute, value
_MISSING = object()


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """torch.cuda.get_device_properties: an H200's figures but for the memory (bytes)."""

    total_memory: int
    name: str = "Emulated CUDA device"
    major: int = 9
    minor: int = 0
    multi_processor_count: int = 132
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    warp_size: int = 32
    is_integrated: int = 0
    is_multi_gpu_board: int = 0


class PatchSet:
    """Sets attributes and restores them, also those that were not there."""

    def __init__(self) -> None:
        self._saved: list[Patch] = []

    def apply(self, patches: Iterator[Patch]) -> None:
        """Set each attribute, in order."""
        for target, name, value in patches:
            self._saved.append((target, name, vars(target).get(name, _MISSING)))
            setattr(target, name, value)

    def restore(self) -> None:
        """Undo, last first."""
        while self._saved:
            target, name, value = self._saved.pop()
            if value is _MISSING:
                delattr(target, name)
            else:
                setattr(target, name, value)


def torch_patches(cuda: EmulatedCUDA) -> Iterator[Patch]:
    """Yield every replacement for one emulated device."""
    yield from _module_patches(cuda)
    for name, function in (_cuda_functions(cuda) | _accelerator_functions(cuda)).items():
        yield torch._C, name, function
    yield torch, "Generator", _generator_class(cuda)
    yield torch, "compile", _uncompiled
    yield torch.autograd.function.BackwardCFunction, "apply", _reentering_apply(cuda)
    group = _grouping(cuda)
    for module in (torch.utils._foreach_utils, torch.nn.utils.clip_grad):
        if hasattr(module, "_group_tensors_by_device_and_dtype"):
            yield module, "_group_tensors_by_device_and_dtype", group
    # last to come and first to go: a finalizer that runs in between sees no device rather than half of one
    yield torch.cuda, "is_available", lambda: cuda.available


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """Stand for torch.compile: no compiler targets the emulated device, so what would be compiled runs eagerly."""
    return (lambda decorated: decorated) if model is None else model


def _module_patches(cuda: EmulatedCUDA) -> Iterator[Patch]:
    module = torch.cuda
    for holder in (module, module.graphs):
        yield holder, "CUDAGraph", CUDAGraph
    for holder in (module, module.streams):
        yield holder, "Stream", Stream
        yield holder, "ExternalStream", ExternalStream
        yield holder, "Event", Event
    yield module, "_initialized", True  # so that nothing tries to initialize CUDA
    yield module, "device_count", lambda: 1
    yield module, "_cached_device_count", 1  # what torch's own function, held by somebody, answers and would write
    yield module, "default_generators", (cuda.default_generator,)
    yield module, "_get_device_properties", lambda device: DeviceProperties(cuda.capacity)
    yield module, "_exchange_device", _select_device
    yield module, "_maybe_exchange_device", _select_device
    yield module, "_cudart", _Runtime(cuda)
    yield module.graphs, "_graph_pool_handle", cuda.new_pool_id
    yield module.graphs, "_cuda_isCurrentStreamCapturing", lambda: cuda.capturing is not None
    yield module.graphs.graph, "default_capture_stream", None
    yield module.nvtx, "_nvtx", _Nvtx()
    yield torch.backends.cudnn, "is_acceptable", lambda tensor: False
    yield torch._utils, "_get_current_device_index", lambda: 0


def _cuda_functions(cuda: EmulatedCUDA) -> dict[str, Callable[..., Any]]:
    """Return what torch.cuda calls in C++."""
    allocator = cuda.memory.allocator

    def set_stream(stream_id: int, device_index: int = 0, device_type: int = CUDA_DEVICE_TYPE) -> None:
        cuda.thread.stream_id = stream_id

    def end_allocate_to_pool(device: int, pool_id: PoolId) -> None:
        pool = allocator.pool(pool_id)
        if not pool.is_recording:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        pool.is_recording = False

    def release_pool(device: int, pool_id: PoolId) -> None:
        allocator.pool(pool_id).use_count -= 1

    def nothing(*_: Any) -> None:
        return None

    def unsuited(*_: Any) -> bool:
        return False

    return {
        # fused attention kernels exist on a GPU alone
        "_can_use_flash_attention": unsuited,
        "_can_use_mem_efficient_attention": unsuited,
        "_can_use_cudnn_attention": unsuited,
        "_cuda_getDeviceCount": lambda: 1,
        "_cuda_getDevice": lambda: 0,
        "_cuda_setDevice": _select_device,
        "_cuda_exchangeDevice": _select_device,
        "_cuda_maybeExchangeDevice": _select_device,
        "_cuda_getArchFlags": lambda: "sm_90",
        "_cuda_synchronize": cuda.wait_for_device,
        "_cuda_getCurrentStream": lambda device: (cuda.thread.stream_id, 0, CUDA_DEVICE_TYPE),
        "_cuda_getCurrentRawStream": lambda device: Stream(stream_id=cuda.thread.stream_id).cuda_stream,
        "_cuda_getDefaultStream": lambda device: (0, 0, CUDA_DEVICE_TYPE),
        "_cuda_setStream": set_stream,
        "_cuda_emptyCache": allocator.trim,
        "_host_emptyCache": nothing,
        "_cuda_endAllocateToPool": end_allocate_to_pool,
        "_cuda_releasePool": release_pool,
        "_cuda_memoryStats": lambda device: memory_statistics.nested(allocator),
        "_cuda_resetPeakMemoryStats": lambda device: allocator.reset_peaks(),
        "_cuda_resetAccumulatedMemoryStats": lambda device: allocator.reset_accumulated(),
        "_cuda_memorySnapshot": lambda pool=None: memory_statistics.snapshot(cuda.memory, pool),
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_ipc_collect": nothing,
    }


def _accelerator_functions(cuda: EmulatedCUDA) -> dict[str, Callable[..., Any]]:
    """Return what torch.accelerator calls in C++."""
    allocator = cuda.memory.allocator

    def set_stream(stream: Stream) -> None:
        cuda.thread.stream_id = stream.stream_id

    return {
        "_accelerator_getAccelerator": lambda: torch.device("cuda"),
        "_accelerator_getDeviceIndex": lambda: 0,
        "_accelerator_setDeviceIndex": _select_device,
        "_accelerator_exchangeDevice": _select_device,
        "_accelerator_maybeExchangeDevice": _select_device,
        "_accelerator_getStream": lambda device=None: Stream(stream_id=cuda.thread.stream_id),
        "_accelerator_setStream": set_stream,
        "_accelerator_synchronizeDevice": lambda device=None: cuda.wait_for_device(),
        "_accelerator_isAllocatorInitialized": lambda: True,
        "_accelerator_emptyCache": allocator.trim,
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_getDeviceStats": lambda device=None: memory_statistics.nested(allocator),
        "_accelerator_resetPeakStats": lambda device=None: allocator.reset_peaks(),
        "_accelerator_resetAccumulatedStats": lambda device=None: allocator.reset_accumulated(),
        "_accelerator_getMemoryInfo": lambda device=None: _Runtime(cuda).cudaMemGetInfo(0),
        "_accelerator_getDefaultGenerator": lambda device=None: cuda.default_generator,
    }


def _select_device(device: int) -> int:
    if device > 0:
        raise torch.AcceleratorError("CUDA error: invalid device ordinal")
    return 0


class _Runtime:
    """The part of the CUDA runtime that torch.cuda.cudart() is asked for."""

    def __init__(self, cuda: EmulatedCUDA) -> None:
        self._cuda = cuda

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:
        """Return the free and the total bytes."""
        reserved = self._cuda.memory.allocator.counters["reserved_bytes", "all"].current
        return self._cuda.capacity - reserved, self._cuda.capacity


class _Nvtx:
    """NVTX ranges that nobody records."""

    def __init__(self) -> None:
        self._depth = 0

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_: 0

    def rangePushA(self, message: str) -> int:
        """Open a range; returns its depth."""
        self._depth += 1
        return self._depth - 1

    def rangePop(self) -> int:
        """Close the last range; returns the depth left."""
        self._depth -= 1
        return self._depth


def _generator_class(cuda: EmulatedCUDA) -> type:
    """Return a torch.Generator whose instances for "cuda" are emulated; isinstance works for all of them."""
    real = torch.Generator

    class Meta(type(real)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

        def __subclasscheck__(cls, subclass: Any) -> bool:
            return issubclass(subclass, real)

    class PatchedGenerator(real, metaclass=Meta):  # type: ignore[misc, valid-type]
        def __new__(cls, device: Any = "cpu") -> Any:
            if torch.device(device).type != "cuda":
                return real(device)
            return cuda.new_generator()

    PatchedGenerator.__name__ = PatchedGenerator.__qualname__ = "Generator"
    return PatchedGenerator


def _reentering_apply(cuda: EmulatedCUDA) -> Callable[..., Any]:
    """The autograd engine runs custom Functions' Python code outside the function mode: put it back."""
    apply = torch.autograd.function.BackwardCFunction.apply

    def reentering(self: Any, *args: Any) -> Any:
        with cuda.function_mode:
            return apply(self, *args)  # type: ignore[no-untyped-call]

    return reentering


def _grouping(cuda: EmulatedCUDA) -> Callable[..., Any]:
    """Group tensors by the emulated device: the C++ function tells the true one."""

    def grouped(tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False) -> Any:
        found: dict[Any, tuple[list[list[Any]], list[int]]] = {}
        for index, tensor in enumerate(tensorlistlist[0]):
            device = CUDA0 if cuda.is_on_device(tensor) else tensor.device
            lists, indices = found.setdefault((device, tensor.dtype), ([[] for _ in tensorlistlist], []))
            for target, source in zip(lists, tensorlistlist, strict=True):
                if source:
                    target.append(source[index])
            if with_indices:
                indices.append(index)
        return found

    return grouped
