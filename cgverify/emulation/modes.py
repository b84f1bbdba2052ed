"""The two torch modes of the emulated device: one sees Python calls, the other sees aten ops."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cgverify.emulation.calls import PLAIN, is_faking
from cgverify.emulation.dispatch import dispatch
from cgverify.emulation.transfers import CUDA0, transfer

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA

_Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Placement:
    """Where ops that make a tensor from nothing put it, and whether the Python call under way named that device."""

    on_device: bool
    explicit: bool


HOST = Placement(on_device=False, explicit=False)
DEVICE = Placement(on_device=True, explicit=False)
_NAMED_HOST = Placement(on_device=False, explicit=True)
_NAMED_DEVICE = Placement(on_device=True, explicit=True)


class DispatchMode(TorchDispatchMode):
    """Hands every aten op to the dispatcher."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True would wrap __torch_dispatch__ in dynamo's disable(): seconds of import, and time on every op
        return False

    def __init__(self, cuda: EmulatedCUDA) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cuda = cuda

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(self._cuda, func, args, kwargs or {})


class FunctionMode(TorchFunctionMode):
    """Makes arena tensors look like cuda:0 to Python code, and notes where factories are to allocate."""

    def __init__(self, cuda: EmulatedCUDA) -> None:
        super().__init__()
        self._cuda = cuda

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cuda, kwargs = self._cuda, kwargs or {}
        special = _SPECIAL.get(func)
        if special is not None and type(args[0]) in PLAIN:
            answer = special(self, func, args, kwargs)
            if answer is not NotImplemented:
                return answer
        descriptor = getattr(func, "__self__", None)
        if isinstance(descriptor, _DESCRIPTORS):
            if descriptor in _GETTERS and cuda.is_on_device(args[0]):
                return _GETTERS[descriptor]
            return func(*args)  # __get__ and __set__ take no keywords and allocate nothing
        device = kwargs.get("device")
        if device is None:
            placement = (
                DEVICE
                if any(map(self._holds_device_tensor, args))
                or (kwargs and any(map(self._holds_device_tensor, kwargs.values())))
                else HOST
            )
        elif not isinstance(device, str | torch.device | int):
            return func(*args, **kwargs)
        elif is_faking():
            return func(*args, **kwargs)  # fake tensors carry any device by themselves
        elif isinstance(device, int) or torch.device(device).type == "cuda":
            if func in _FROM_HOST_VALUES:
                return self._from_host(func, args, {**kwargs, "device": "cpu"})
            placement, kwargs = _NAMED_DEVICE, {**kwargs, "device": "cpu"}
        else:
            placement = _NAMED_HOST
        thread = cuda.thread
        outer, thread.placement = thread.placement, placement
        try:
            return func(*args, **kwargs)
        finally:
            thread.placement = outer

    def _holds_device_tensor(self, value: Any) -> bool:
        if type(value) in PLAIN:
            return self._cuda.is_on_device(value)
        if type(value) in (list, tuple):
            return any(map(self._holds_device_tensor, value))
        return False

    def _from_host(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Build a tensor from Python values on the host and copy it over."""
        thread = self._cuda.thread
        outer, thread.placement = thread.placement, _NAMED_HOST
        try:
            values = func(*args, **kwargs)
        finally:
            thread.placement = outer
        requires_grad = values.requires_grad and values.is_leaf and func in (torch.tensor, _Tensor.new_tensor)
        moved = transfer(self._cuda, _Tensor.to, (values.detach() if requires_grad else values, CUDA0), {})
        return moved.requires_grad_() if requires_grad else moved

    def _transfer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return transfer(self._cuda, func, args, kwargs)

    def _get_device(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return 0 if self._cuda.is_on_device(args[0]) else NotImplemented

    def _as_array(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._cuda.is_on_device(args[0]):
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
                "first."
            )
        return NotImplemented

    def _read_values(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Check tolist, repr and format, which read memory without asking the dispatcher."""
        if self._cuda.is_on_device(args[0]):
            if func is _Tensor.tolist:
                self._cuda.check_host_copy(is_pinned=False, non_blocking=False)
            else:
                self._cuda.wait_for_current_stream()
        return NotImplemented

    def _record_stream(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return None if self._cuda.is_on_device(args[0]) else NotImplemented

    def _new_tensor(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs.get("device") is None and self._cuda.is_on_device(args[0]):
            return self._from_host(func, args, kwargs)
        return NotImplemented

    def _deepcopy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source, memo = args
        if not self._cuda.is_on_device(source):
            return NotImplemented
        if id(source) not in memo:
            copy = source.detach().clone()
            is_parameter = type(source) is torch.nn.Parameter
            memo[id(source)] = (
                torch.nn.Parameter(copy, source.requires_grad)
                if is_parameter
                else copy.requires_grad_(source.requires_grad)
            )
        return memo[id(source)]

    def _cross_entropy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """With weights and label smoothing: CUDA selects by mask, which waits; under a mode C++ takes another way."""
        if not self._cuda.is_on_device(args[0]):
            return NotImplemented
        given = inspect.signature(func).bind(*args, **kwargs).arguments
        is_weighted = given.get("weight") is not None and given.get("reduction", "mean") == "mean"
        if is_weighted and given.get("label_smoothing") and not given["target"].is_floating_point():
            self._cuda.wait_for_current_stream()
        return NotImplemented

    def _one_hot(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """With a class count: the CPU kernel checks the values on the host, CUDA's does not."""
        classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
        if classes < 0 or not self._cuda.is_on_device(args[0]):
            return NotImplemented
        with self:
            zeros = torch.zeros(*args[0].shape, classes, dtype=torch.int64, device=CUDA0)
            return zeros.scatter_(-1, args[0][..., None], 1)


_DESCRIPTORS = (types.GetSetDescriptorType, property)
_GETTERS: dict[Any, Any] = {_Tensor.device: CUDA0, _Tensor.is_cuda: True, _Tensor.is_cpu: False}
_FROM_HOST_VALUES = {
    torch.tensor,
    torch.as_tensor,
    torch.asarray,
    torch.from_numpy,
    torch.frombuffer,
    _Tensor.new_tensor,
}
_SPECIAL: dict[Any, Callable[..., Any]] = {
    _Tensor.to: FunctionMode._transfer,
    _Tensor.cuda: FunctionMode._transfer,
    _Tensor.cpu: FunctionMode._transfer,
    _Tensor.get_device: FunctionMode._get_device,
    torch.get_device: FunctionMode._get_device,
    _Tensor.numpy: FunctionMode._as_array,
    _Tensor.__array__: FunctionMode._as_array,
    _Tensor.tolist: FunctionMode._read_values,
    _Tensor.__repr__: FunctionMode._read_values,
    _Tensor.__format__: FunctionMode._read_values,
    _Tensor.record_stream: FunctionMode._record_stream,
    _Tensor.new_tensor: FunctionMode._new_tensor,
    _Tensor.__deepcopy__: FunctionMode._deepcopy,
    torch.nn.functional.cross_entropy: FunctionMode._cross_entropy,
    torch.nn.functional.one_hot: FunctionMode._one_hot,
}
