"""What proxies and bound symbols say of themselves: names, devices, metadata, and how the text writes torch objects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import torch
from thunder.core.devices import Device
from thunder.core.proxies import Proxy, ProxyTag, TensorProxy
from thunder.core.symbol import BoundSymbol


def flat_proxies(tree: object) -> Iterator[Proxy]:
    """The proxies in a nest of tuples, lists, dicts and slices, in order."""
    if isinstance(tree, Proxy):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from flat_proxies(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from flat_proxies(item)
    elif isinstance(tree, slice):
        yield from flat_proxies((tree.start, tree.stop, tree.step))


def device_of(proxy: Proxy) -> str:
    """`cuda:0`, `cpu`, ... for a tensor; empty for anything else."""
    return device_name(proxy.device) if isinstance(proxy, TensorProxy) else ""


@cache
def device_name(device: Device) -> str:
    """`cuda:0`, `cpu`, ..."""
    return str(device.device_str())


def is_host(proxy: Proxy) -> bool:
    """Whether the proxy is a tensor in host memory."""
    return isinstance(proxy, TensorProxy) and device_of(proxy).startswith("cpu")


def metadata_of(proxy: Proxy) -> tuple[object, ...]:
    """What the trace claims about a value, comparable: kind, and for tensors shape, dtype, device, requires_grad."""
    if isinstance(proxy, TensorProxy):
        shape = tuple(size.name if isinstance(size, Proxy) else int(size) for size in proxy.shape)
        return ("tensor", shape, str(proxy.dtype), device_of(proxy), bool(proxy.requires_grad))
    return (type(proxy).__name__,)


def callable_of(bsym: BoundSymbol) -> object | None:
    """The Python object that the executed text calls for this op, None if it comes with an import."""
    context = bsym._call_ctx
    return None if context is None else context.get(bsym.sym.name)


def torch_literal(value: object) -> str:
    """How the text writes a torch object, such as `torch.float32` and `torch.device('cuda:0')`; empty for others."""
    if isinstance(value, torch.dtype):
        return str(value)
    return f"torch.device({str(value)!r})" if isinstance(value, torch.device) else ""


def is_static(proxy: Proxy) -> bool:
    """Whether Thunder tagged the value as memory at a fixed address."""
    return ProxyTag.STATIC_MEMORY_LOCATION in proxy.tags
