"""What torch.cuda and torch.accelerator call in C++, answered for an emulated device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cgverify.emulation import memory_statistics
from cgverify.emulation.blocks import PoolId
from cgverify.emulation.streams import CUDA_DEVICE_TYPE, Stream

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA


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


def cuda_functions(cuda: EmulatedCUDA) -> dict[str, Callable[..., Any]]:
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
        "_cuda_setDevice": select_device,
        "_cuda_exchangeDevice": select_device,
        "_cuda_maybeExchangeDevice": select_device,
        "_cuda_getArchFlags": lambda: "sm_90",
        "_cuda_synchronize": cuda.wait_for_device,
        "_cuda_getCurrentStream": lambda device: (cuda.thread.stream_id, 0, CUDA_DEVICE_TYPE),
        "_cuda_getCurrentRawStream": lambda device: Stream(stream_id=cuda.thread.stream_id).cuda_stream,
        "_cuda_getDefaultStream": lambda device: (0, 0, CUDA_DEVICE_TYPE),
        "_cuda_setStream": set_stream,
        "_cuda_emptyCache": allocator.trim,
        "_host_emptyCache": nothing,
        "_cuda_clearCublasWorkspaces": nothing,
        "_cuda_endAllocateToPool": end_allocate_to_pool,
        "_cuda_releasePool": release_pool,
        "_cuda_memoryStats": lambda device: memory_statistics.nested(allocator),
        "_cuda_resetPeakMemoryStats": lambda device: allocator.counters.reset_peaks(),
        "_cuda_resetAccumulatedMemoryStats": lambda device: allocator.counters.reset_accumulated(),
        "_cuda_memorySnapshot": lambda pool=None: memory_statistics.snapshot(cuda.memory, pool),
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_ipc_collect": nothing,
    }


def accelerator_functions(cuda: EmulatedCUDA) -> dict[str, Callable[..., Any]]:
    """Return what torch.accelerator calls in C++."""
    allocator = cuda.memory.allocator

    def set_stream(stream: Stream) -> None:
        cuda.thread.stream_id = stream.stream_id

    return {
        "_accelerator_getAccelerator": lambda: torch.device("cuda"),
        "_accelerator_getDeviceIndex": lambda: 0,
        "_accelerator_setDeviceIndex": select_device,
        "_accelerator_exchangeDevice": select_device,
        "_accelerator_maybeExchangeDevice": select_device,
        "_accelerator_getStream": lambda device=None: Stream(stream_id=cuda.thread.stream_id),
        "_accelerator_setStream": set_stream,
        "_accelerator_synchronizeDevice": lambda device=None: cuda.wait_for_device(),
        "_accelerator_isAllocatorInitialized": lambda: True,
        "_accelerator_emptyCache": allocator.trim,
        "_accelerator_emptyHostCache": lambda: None,
        "_accelerator_getDeviceStats": lambda device=None: memory_statistics.nested(allocator),
        "_accelerator_resetPeakStats": lambda device=None: allocator.counters.reset_peaks(),
        "_accelerator_resetAccumulatedStats": lambda device=None: allocator.counters.reset_accumulated(),
        "_accelerator_getMemoryInfo": lambda device=None: Runtime(cuda).cudaMemGetInfo(0),
        "_accelerator_getDefaultGenerator": lambda device=None: cuda.default_generator,
    }


def select_device(device: int) -> int:
    """Make a device the current one; returns the one before, and there is only one."""
    if device > 0:
        raise torch.AcceleratorError("CUDA error: invalid device ordinal")
    return 0


class Runtime:
    """The part of the CUDA runtime that torch.cuda.cudart() is asked for."""

    def __init__(self, cuda: EmulatedCUDA) -> None:
        self._cuda = cuda

    def cudaMemGetInfo(self, device: int) -> tuple[int, int]:
        """Return the free and the total bytes."""
        reserved = self._cuda.memory.allocator.counters["reserved_bytes", "all"].current
        return self._cuda.capacity - reserved, self._cuda.capacity


class Nvtx:
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
