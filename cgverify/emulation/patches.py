"""What is replaced in torch while an emulated device is in force.

torch.cuda's Python code stays torch's own as far as it goes: what it calls in C++ is replaced, and the classes whose
C++ bases need a GPU. So `torch.cuda.graph`, `StreamContext`, `memory_stats`, `manual_seed` and the like run unmodified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cgverify.emulation.bindings import (
    DeviceProperties,
    Nvtx,
    Runtime,
    accelerator_functions,
    cuda_functions,
    select_device,
)
from cgverify.emulation.graph import CUDAGraph
from cgverify.emulation.streams import Event, ExternalStream, Stream
from cgverify.emulation.transfers import CUDA0

import torch

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA

Patch = tuple[Any, str, Any]  # object, attribute, value
_MISSING = object()


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
    for name, function in (cuda_functions(cuda) | accelerator_functions(cuda)).items():
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
    yield module, "_exchange_device", select_device
    yield module, "_maybe_exchange_device", select_device
    yield module, "_cudart", Runtime(cuda)
    yield module.graphs, "_graph_pool_handle", cuda.new_pool_id
    yield module.graphs, "_cuda_isCurrentStreamCapturing", lambda: cuda.capturing is not None
    yield module.graphs.graph, "default_capture_stream", None
    yield module.nvtx, "_nvtx", Nvtx()
    yield torch.backends.cudnn, "is_acceptable", lambda tensor: False
    yield torch._utils, "_get_current_device_index", lambda: 0


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
