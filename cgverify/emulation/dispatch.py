"""One aten op on the emulated device: decide where it runs, then run it, or record it if a capture is under way.

An op with a tensor of the arena among its arguments is a device op; CPU kernels compute it and fresh results move into
the arena. During a capture a device op is checked for legality, its results are allocated from the graph's memory pool,
and the launch is recorded and not run. Views and host ops happen at once and are never recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from cgverify.emulation.graph import Capture, Launch, flat_results
from cgverify.emulation.legality import check_capturable
from cgverify.emulation.ops import OpInfo, describe
from cgverify.emulation.rng import Generator, draw, stream_seed
from cgverify.emulation.scratch import Scratch, meta_like, zeros_like

import torch
from torch._subclasses.fake_tensor import FakeTensor

if TYPE_CHECKING:
    from cgverify.emulation.device import EmulatedCUDA

CPU = torch.device("cpu")
PLAIN = (torch.Tensor, torch.nn.Parameter)


class Dispatcher:
    """Executes aten ops for one emulated device."""

    def __init__(self, cuda: EmulatedCUDA) -> None:
        self.cuda = cuda

    def __call__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run or record one op; returns what it returns."""
        cuda = self.cuda
        tensors = list(_tensors(args)) + list(_tensors(kwargs.values())) if kwargs else list(_tensors(args))
        if any(t.is_meta or is_fake(t) for t in tensors) or is_faking():
            return func(*args, **kwargs)  # somebody is tracing: not our device
        info = describe(func)
        device = [t for t in tensors if cuda.is_on_device(t)]
        if info.name in _SPECIAL:
            return _SPECIAL[info.name](self, func, info, args, kwargs)
        if info.is_factory:
            kwargs, on_device = self._place(tensors, device, kwargs)
            if not on_device:
                return self._host_factory(func, info, args, kwargs)
        elif not device:
            return func(*args, **kwargs)  # host work: runs now, never recorded
        cuda.stats["ops"] += 1
        capture = cuda.capturing
        if capture is not None and capture.is_invalid and not (info.is_empty or info.is_view):
            cuda.refuse_invalid()
        host = [t for t in tensors if t.dim() and not cuda.is_on_device(t)] if len(device) != len(tensors) else []
        if host and not (info.mixes_host or info.is_factory):  # x_host.new_zeros(2, device="cuda") is fine
            raise RuntimeError(_mixed_devices_message(info, args, host[0]))
        if info.is_composite:
            result = cuda.decompose(func, args, kwargs)
            if result is not NotImplemented:
                return result
        if info.is_view:
            return func(*args, **kwargs)
        if capture is None:
            return self.run(func, info, args, kwargs)
        check_capturable(cuda, info, args, kwargs, host)
        return self.record(capture, func, info, args, kwargs)

    def run(self, func: Any, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a device op now."""
        if info.syncs or info.host_copy:
            self.cuda.wait_for_current_stream()
        if info.is_random:
            state = self._generator(kwargs).state
            seed = stream_seed(state.seed, state.advance(in_capture=False))
            result = draw(func, info, args, kwargs, seed)
        else:
            result = func(*args, **kwargs)
        return _map(self._empty_like if info.is_empty else self._move_in, result)

    def record(self, capture: Capture, func: Any, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Allocate the op's results from the capture's memory pool and note the launch."""
        random = None
        if info.is_random:
            state = self._generator(kwargs).state
            random = (state, state.advance(in_capture=True))
            if info.takes_generator:
                kwargs = {**kwargs, "generator": None}
        written = [_argument(where, args, kwargs) for where in info.returns]
        outputs: list[torch.Tensor | None] = []
        result: Any = None
        like: Any = self._dry_run(func, info, args, kwargs) if written or info.is_mutable else None
        if written and all(target is not None for target in written):
            result = written[0] if len(written) == 1 else tuple(written)
        elif written:
            if len(written) == 1:
                result = _map(self._empty_like, like)
            else:
                pairs = zip(written, like, strict=True)
                result = tuple(_map(self._empty_like, value) if w is None else w for w, value in pairs)
            raw = self.cuda.memory.raw_view
            outputs = [None if t is None or any(t is w for w in written) else raw(t) for t in flat_results(result)]
        self._note_external(capture, info, args, kwargs)
        if not info.is_empty:  # else an allocation, not a kernel
            raw_args, raw_kwargs = self._bake_arguments(info, args, kwargs)
            capture.program.append(Launch(func, info, raw_args, raw_kwargs, outputs, random))
            self.cuda.stats["recorded"] += 1
        return result

    def _place(
        self, tensors: list[torch.Tensor], device: list[torch.Tensor], kwargs: dict[str, Any]
    ) -> tuple[dict[str, Any], bool]:
        """Decide where a factory's result lies; returns its arguments for a CPU kernel as well."""
        target, placement = kwargs.get("device"), self.cuda.thread.placement
        if target is not None and target.type == "cuda":  # named by code that the function mode does not see
            return {**kwargs, "device": CPU}, True
        if target is not None and target.type != "cpu":
            return kwargs, False
        if placement.explicit or not tensors:
            return kwargs, placement.on_device
        return kwargs, bool(device)

    def _host_factory(self, func: Any, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not kwargs.get("pin_memory"):
            return func(*args, **kwargs)
        return self.cuda.pin(func(*args, **{**kwargs, "pin_memory": False}))

    def _generator(self, kwargs: dict[str, Any]) -> Generator:
        generator = kwargs.get("generator")
        return self.cuda.default_generator if generator is None else self.cuda.generator_behind(generator)

    def _move_in(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.cuda.is_on_device(tensor):
            return tensor
        return self._empty_like(tensor).copy_(tensor)

    def _empty_like(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.cuda.empty(tensor.size(), tensor.stride(), tensor.dtype)

    def _bake_arguments(
        self, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        raw_args = _map(self._bake, list(args))
        raw_kwargs = {key: _map(self._bake, value) for key, value in kwargs.items()}
        if "storage_offset" in info.arguments:  # counts from the storage's start, and a raw view's storage is the arena
            position, start = info.arguments.index("storage_offset"), self.cuda.memory.start_of_storage(args[0])
            if position < len(args) and args[position] is not None:
                raw_args[position] += start
            elif raw_kwargs.get("storage_offset") is not None:
                raw_kwargs["storage_offset"] += start
        return raw_args, raw_kwargs

    def _bake(self, tensor: torch.Tensor) -> torch.Tensor:
        # a 0-dim CPU tensor is read when the kernel is launched, so its value goes into the graph
        return self.cuda.memory.raw_view(tensor) if self.cuda.is_on_device(tensor) else tensor.clone()

    def _note_external(self, capture: Capture, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for tensor in (*_tensors(args), *_tensors(kwargs.values())):
            block = self.cuda.memory.block_of(tensor)
            if block is not None and block.capture is not capture:
                capture.external.setdefault(block, (block.serial, info.name))

    def _dry_run(self, func: Any, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return results of the right sizes and strides without touching device memory, or raise the op's error.

        The CPU kernel runs on zeros, which gives the strides that eager execution gives. If it rejects zeros (as a
        divisor, say), ones or the meta kernel decide; if they fail too, the op is wrong, and the first error says why.
        """
        tensors = (*_tensors(args), *_tensors(kwargs.values()))
        try:
            return self._try(func, info, args, kwargs, Scratch(tensors, 0) if info.is_mutable else zeros_like)
        except Exception as error:
            # an op that writes must see which of its arguments overlap, which meta tensors do not tell
            stand_in = Scratch(tensors, 1) if info.is_mutable else meta_like
            try:
                return self._try(func, info, args, kwargs, stand_in)
            except Exception:
                raise error from None

    @staticmethod
    def _try(
        func: Any,
        info: OpInfo,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        stand_in: Callable[[torch.Tensor], torch.Tensor],
    ) -> Any:
        scratch_args = _map(stand_in, list(args))
        scratch_kwargs = {key: _map(stand_in, value) for key, value in kwargs.items()}
        if stand_in is meta_like:
            scratch_kwargs.update({"device": torch.device("meta")} if "device" in kwargs else {})
            return func(*scratch_args, **scratch_kwargs)
        return (
            draw(func, info, scratch_args, scratch_kwargs, 0)
            if info.is_random
            else func(*scratch_args, **scratch_kwargs)
        )

    def _copy(self, func: Any, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """copy_(target, source, non_blocking): a launch, or a transfer if one of them is on the host."""
        cuda, target, source = self.cuda, args[0], args[1]
        to_device, from_device = cuda.is_on_device(target), cuda.is_on_device(source)
        if not (to_device or from_device):
            return func(*args, **kwargs)
        cuda.stats["ops"] += 1
        capture = cuda.capturing
        if capture is not None and capture.is_invalid:
            cuda.refuse_invalid()
        if to_device != from_device:
            non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
            cuda.check_host_copy(cuda.is_pinned(source if to_device else target), non_blocking)
        if capture is None:
            return func(*args, **kwargs)
        if to_device and from_device:
            return self.record(capture, func, info, args, kwargs)
        self._dry_run(func, info, args, kwargs)
        return self.record_transfer(capture, func, info, target, source)

    def record_transfer(
        self, capture: Capture, func: Any, info: OpInfo, target: torch.Tensor, source: torch.Tensor
    ) -> Any:
        """Note a copy between device and pinned host memory."""
        cuda = self.cuda

        def raw(tensor: torch.Tensor) -> torch.Tensor:
            return (cuda.memory if cuda.is_on_device(tensor) else cuda.pinned_memory).raw_view(tensor)

        self._note_external(capture, info, (target, source), {})
        capture.program.append(Launch(func, info, [raw(target), raw(source)], {}, []))
        cuda.stats["recorded"] += 1
        return target

    def _foreach_copy(self, func: Any, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One grouped copy between device tensors, else a copy each, as the CUDA implementation does."""
        places = {self.cuda.is_on_device(tensor) for tensor in _tensors(args)}
        if len(places) > 1:
            for target, source in zip(args[0], args[1], strict=True):
                self(torch.ops.aten.copy_.default, (target, source, *args[2:]), kwargs)
            return None
        capture = self.cuda.capturing
        if places != {True} or capture is None:
            return func(*args, **kwargs)
        if capture.is_invalid:
            self.cuda.refuse_invalid()
        return self.record(capture, func, info, args, kwargs)

    def _to_copy(self, func: Any, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """_to_copy with a transfer pending, or within one memory."""
        cuda, source = self.cuda, args[0]
        transfer, cuda.thread.transfer = cuda.thread.transfer, None
        device = kwargs.get("device")
        from_device = cuda.is_on_device(source)
        if transfer is not None:
            to_device, non_blocking = transfer
        elif device is not None and device.type == "cuda":
            to_device, non_blocking, kwargs = True, bool(kwargs.get("non_blocking")), {**kwargs, "device": CPU}
        else:
            to_device, non_blocking = from_device, False
        if device is not None and device.type not in ("cpu", "cuda"):
            return func(*args, **kwargs)
        if not (to_device or from_device):
            result = func(*args, **{**kwargs, "pin_memory": None})
            return cuda.pin(result) if kwargs.get("pin_memory") else result
        cuda.stats["ops"] += 1
        capture = cuda.capturing
        if capture is not None and capture.is_invalid:
            cuda.refuse_invalid()
        if to_device == from_device:
            return (
                self.run(func, info, args, kwargs)
                if capture is None
                else self.record(capture, func, info, args, kwargs)
            )
        # a transfer to the host that does not block gets a pinned result
        cuda.check_host_copy(non_blocking if from_device else cuda.is_pinned(source), non_blocking)
        result = func(*args, **kwargs) if capture is None else self._dry_run(func, info, args, kwargs)
        if to_device:
            result = self._move_in(result)
        elif non_blocking:
            result = cuda.pin(result)
        if capture is not None:
            copy = torch.ops.aten.copy_.default
            self.record_transfer(capture, copy, describe(copy), result, source)
        return result

    def _is_pinned(self, func: Any, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return self.cuda.is_pinned(args[0])

    def _pin_memory(self, func: Any, info: OpInfo, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        if self.cuda.is_on_device(args[0]):
            raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
        return self.cuda.pin(args[0])


_SPECIAL: dict[str, Callable[..., Any]] = {
    "aten::copy_": Dispatcher._copy,
    "aten::_to_copy": Dispatcher._to_copy,
    "aten::_foreach_copy_": Dispatcher._foreach_copy,
    "aten::is_pinned": Dispatcher._is_pinned,
    "aten::_pin_memory": Dispatcher._pin_memory,
}


def _mixed_devices_message(info: OpInfo, args: tuple[Any, ...], host: torch.Tensor) -> str:
    """Return torch's text for a CPU tensor among CUDA tensors: elementwise ops and generated wrappers differ."""
    named = [name for name, value in zip(info.arguments, args, strict=False) if value is host]
    found = (
        f"got {named[0]} is on cpu, different from other tensors on cuda:0 (when checking argument in method "
        f"wrapper_CUDA_{info.name.removeprefix('aten::')})"
        if named and not info.iterates
        else "found at least two devices, cuda:0 and cpu!"
    )
    return f"Expected all tensors to be on the same device, but {found}"


def is_faking() -> bool:
    """Whether a FakeTensorMode is in force: it gives its tensors any device by itself."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether the tensor only stands for one while somebody traces."""
    return type(tensor) not in PLAIN and isinstance(tensor, FakeTensor)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if type(value) in PLAIN or isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _map(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_map(change, item) for item in value)
    return value


def _argument(where: int | str | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the argument a result is written into; None for a fresh result."""
    if where is None:
        return None
    if isinstance(where, int):
        return args[where] if where < len(args) else None
    return kwargs.get(where)
