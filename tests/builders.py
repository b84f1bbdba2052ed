"""Tiny execution traces in a few lines, without data: proxies on any device, ops of Thunder's torch executor."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cgverify  # noqa: F401  (makes Thunder importable)

from thunder.core import devices, dtypes, prims
from thunder.core.codeutils import SigInfo
from thunder.core.proxies import NumberProxy, ProxyTag, TensorProxy
from thunder.core.trace import TraceCtx, tracectx
from thunder.executors import pythonex, torchex


class TraceBuilder:
    """Builds one trace op by op; every method returns what the op returns.

    Parameters are given up front as `name` or `name:device` or `name!` (a static address), all float32 of shape (4, 4).
    """

    def __init__(self, *parameters: str, name: str = "computation") -> None:
        self.trace = TraceCtx(None)
        signature = SigInfo(name)
        with tracectx(self.trace):
            proxies = [self._parameter(spec) for spec in parameters]
            for proxy in proxies:
                prims.unpack_trivial(proxy, name=proxy.name)
        signature.args = [(proxy.name, None) for proxy in proxies]
        self.trace.args = tuple(proxies)
        self.trace._siginfo = signature
        self.parameters = {proxy.name: proxy for proxy in proxies}

    def __getitem__(self, name: str) -> TensorProxy:
        return self.parameters[name]

    def op(self, identifier: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a symbol of the torch executor."""
        with self._line():
            return torchex.ex.opmap[identifier](*args, **kwargs)

    def python(self, identifier: str, *args: Any) -> NumberProxy:
        """Calls a symbol of the python executor."""
        with self._line():
            return pythonex.ex.opmap[identifier](*args)

    @contextmanager
    def _line(self) -> Iterator[None]:
        """The trace, on the next line of a file: one op a line, from 1."""
        line = len(self.trace.bound_symbols) - len(self.parameters) + 1
        self.trace.set_current_source_location("model.py", dis.Positions(line, line, 0, 0))
        with tracectx(self.trace):
            yield

    def done(self, *results: Any) -> TraceCtx:
        """Ends the trace with `return results`."""
        with tracectx(self.trace):
            prims.python_return(results)
        return self.trace

    @staticmethod
    def _parameter(spec: str) -> TensorProxy:
        name, _, device = spec.partition(":")
        static = name.endswith("!")
        return TensorProxy(
            name.rstrip("!"),
            shape=(4, 4),
            device=devices.to_device(device or "cuda:0"),
            dtype=dtypes.float32,
            requires_grad=False,
            tags={ProxyTag.STATIC_MEMORY_LOCATION} if static else set(),
        )
