"""Makes a supported PyTorch and a supported Thunder importable together; the only home of version differences.

:func:`install` puts a finder on :data:`sys.meta_path` that acts once, when ``thunder`` is imported. Around that
import it

* refuses a pair of versions outside the supported range, and a process in which ``thunder`` already failed to import,
  with one line (:class:`UnsupportedVersionError`) in place of a traceback from inside Thunder;
* lends ``torch.Tensor`` the named-tensor methods that Thunder lists in its table of operators and that PyTorch removed;
* lends ``torch.autograd.Function`` an ``apply`` written in Python, whose ``__func__`` Thunder uses as the key under
  which it traces such functions, where PyTorch's own ``apply`` is a builtin without one.

Both loans end with the import, so eager PyTorch is left as it was. What stays is inside Thunder: calls of a builtin
``apply`` are led to the tracing function that Thunder stored under the lent key; and where there is no GPU, the results
of an op that Thunder knows by name alone are found out on fake tensors without a device, since fake CUDA tensors that
require gradients end the process there.

Differences are recognised by the missing attribute, not by the version number. Neither package is imported here until
``thunder`` is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import BuiltinFunctionType, BuiltinMethodType, ModuleType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

__all__ = ["UnsupportedVersionError", "check_versions", "has_thunderfx", "install"]

TORCH_RANGE = ((2, 11), (2, 15))
THUNDER_VERSION = (0, 2, 6)
THUNDERFX_RANGE = ((2, 11), (2, 12))
SUPPORTED = "torch >=2.11,<2.15 with lightning-thunder 0.2.6"
REMEDY = "pip install torch==2.13.0 lightning-thunder==0.2.6"

# Listed in thunder/torch/default_torch_ops.py, absent from torch.Tensor since PyTorch 2.13.
NAMED_TENSOR_METHODS = ("align_as", "align_to", "has_names", "refine_names", "rename")


class UnsupportedVersionError(ImportError):
    """The installed PyTorch and Thunder cannot be used together; one line names versions, range and remedy."""


def install() -> None:
    """Make a later ``import thunder`` work; safe to call again.

    Raises:
        UnsupportedVersionError: ``thunder`` is imported already, and the pair of versions is not supported.
    """
    if "thunder" in sys.modules:
        check_versions()
    elif not any(isinstance(finder, _ThunderFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _ThunderFinder())


def check_versions() -> None:
    """Refuse versions outside the supported range, from package metadata alone.

    Raises:
        UnsupportedVersionError: a package is missing, or its version is outside the range.
    """
    torch, thunder = _torch_version(), _distribution_version("lightning-thunder")
    lowest, beyond = TORCH_RANGE
    if not (lowest <= _release(torch)[:2] < beyond and _release(thunder) == THUNDER_VERSION):
        raise UnsupportedVersionError(f"{_pair()} is not supported: cgverify needs {SUPPORTED}; run `{REMEDY}`")


def has_thunderfx() -> bool:
    """Whether `thunder.dynamo.thunderfx` was seen to work with the installed PyTorch: from 2.13 on it raises."""
    lowest, beyond = THUNDERFX_RANGE
    return lowest <= _release(_torch_version())[:2] < beyond


class _ThunderFinder(MetaPathFinder):
    """Finds ``thunder`` where the other finders do, and puts :class:`_ThunderLoader` in front of its loader."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "thunder":
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _ThunderLoader(spec.loader)
                return spec
        return None


class _ThunderLoader(Loader):
    """Runs Thunder's own loader with the loans in place."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module looks as if it had been found without us.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        check_versions()
        if any(name.startswith("thunder.") for name in sys.modules):
            raise UnsupportedVersionError(
                f"thunder failed to import earlier in this process ({_pair()}) and left modules that cannot be used; "
                "start a fresh process and import cgverify before thunder"
            )
        try:
            with _named_tensor_methods(), _python_apply() as apply:
                self._loader.exec_module(module)
        except Exception as error:
            _refuse(error)
        if apply is not None:
            _trace_builtin_apply(apply)
        _fake_without_cuda()


def _refuse(error: Exception) -> NoReturn:
    """Turn a failure inside Thunder's import into one line."""
    cause = f"{type(error).__name__}: {error}".splitlines()[0]
    raise UnsupportedVersionError(
        f"thunder failed to import ({_pair()}): {cause}; cgverify needs {SUPPORTED}; "
        f"run `{REMEDY}` in a fresh environment"
    ) from None


@contextmanager
def _named_tensor_methods() -> Iterator[None]:
    """Lend ``torch.Tensor`` the named-tensor methods it lacks."""
    from torch import Tensor

    lent = [name for name in NAMED_TENSOR_METHODS if not hasattr(Tensor, name)]
    for name in lent:
        setattr(Tensor, name, _removed_method(name))
    try:
        yield
    finally:
        for name in lent:
            delattr(Tensor, name)


def _removed_method(name: str) -> Callable[..., NoReturn]:
    """Return a stand-in for ``torch.Tensor.<name>``, which Thunder calls if a traced function does."""

    def method(*args: object, **kwargs: object) -> NoReturn:
        raise AttributeError(
            f"torch.Tensor.{name} does not exist in torch {_torch_version()}: named tensors were removed"
        )

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    return method


@contextmanager
def _python_apply() -> Iterator[Callable[..., Any] | None]:
    """Lend ``torch.autograd.Function`` an ``apply`` with a ``__func__``; yields it, or None where none is needed."""
    from torch.autograd import Function

    if hasattr(Function.apply, "__func__"):
        yield None
        return
    builtin = Function.__dict__["apply"]

    def apply(cls: type[Function], /, *args: object, **kwargs: object) -> object:
        return builtin.__get__(None, cls)(*args, **kwargs)

    Function.apply = classmethod(apply)  # type: ignore[assignment, method-assign]
    try:
        yield apply
    finally:
        Function.apply = builtin  # type: ignore[method-assign]


def _trace_builtin_apply(key: Callable[..., Any]) -> None:
    """Lead calls of a builtin ``Function.apply`` to the tracing function that Thunder stored under ``key``.

    A Python classmethod reaches Thunder's look-up as its ``__func__`` with the class as first argument. A builtin one
    reaches it bound to its class, a new object each time, so it is recognised by name and class, and the class is put
    in front of the arguments.
    """
    from thunder.core import jit_ext
    from thunder.core.interpreter import wrap_const
    from torch.autograd import Function

    trace_apply = jit_ext._general_jit_lookaside_map.pop(key)
    look_up = jit_ext.general_jit_lookaside

    def general_jit_lookaside(fn: object, *args: object, **kwargs: object) -> object:
        owner = getattr(fn, "__self__", None) if isinstance(fn, BuiltinMethodType) else None
        if isinstance(owner, type) and issubclass(owner, Function) and fn == owner.apply:
            return partial(trace_apply, wrap_const(owner))
        return look_up(fn, *args, **kwargs)

    jit_ext.general_jit_lookaside = general_jit_lookaside


def _fake_without_cuda() -> None:
    """Where there is no GPU: make Thunder's fake CUDA tensors on "meta", and call what comes of them CUDA again.

    Autograd asks the backend of a leaf's device for its streams; where there is none PyTorch raises in a place that
    must not, and the process ends.
    """
    import thunder.torch as thunder_torch
    import torch
    from thunder.core import devices, dtypes
    from thunder.core.proxies import TensorProxy
    from torch._subclasses.fake_tensor import FakeTensor

    def has_gpu() -> bool:
        # An emulation replaces it by Python. It is called late: a process that has counted devices must not be forked.
        count_devices = getattr(torch._C, "_cuda_getDeviceCount", None)
        try:
            return isinstance(count_devices, BuiltinFunctionType) and bool(count_devices() > 0)
        except RuntimeError:
            return False

    make, name = thunder_torch._get_fake_arg, thunder_torch._fake_type_to_thunder
    stand_ins: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # fake mode -> the device that "meta" stands for

    def get_fake_arg(argument: Any) -> Any:
        is_tensor = isinstance(argument, (TensorProxy, torch.Tensor))
        if not is_tensor or devices.to_torch_device(argument.device).type != "cuda" or has_gpu():
            return make(argument)
        dtype, gradient = thunder_torch.to_torch_dtype(argument.dtype), argument.requires_grad
        fake: Any = torch.empty(argument.shape, dtype=dtype, requires_grad=gradient, device="meta")
        stand_ins[fake.fake_mode] = argument.device
        return fake

    def fake_type_to_thunder(result: Any) -> Any:
        if not (isinstance(result, FakeTensor) and result.device.type == "meta" and result.fake_mode in stand_ins):
            return name(result)
        device, dtype = devices.to_device(stand_ins[result.fake_mode]), dtypes.to_dtype(result.dtype)
        return TensorProxy(shape=result.shape, device=device, dtype=dtype, requires_grad=result.requires_grad)

    thunder_torch._get_fake_arg, thunder_torch._fake_type_to_thunder = get_fake_arg, fake_type_to_thunder


def _pair() -> str:
    """Name the versions at hand."""
    return f"torch {_torch_version()} with lightning-thunder {_distribution_version('lightning-thunder')}"


def _torch_version() -> str:
    """Return the version of the PyTorch that is loaded, else of the one that would be."""
    loaded = getattr(sys.modules.get("torch"), "__version__", None)
    return _distribution_version("torch") if loaded is None else str(loaded)


def _distribution_version(name: str) -> str:
    """Return a distribution's version, or "(not installed)"."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``2.13.0+cpu`` gives (2, 13, 0)."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in numbers.group().split(".")) if numbers else ()
