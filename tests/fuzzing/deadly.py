"""A transform that ends its process, or never ends: what the executor has to survive."""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

from thunder.core.trace import TraceCtx
from thunder.core.transform_common import Transform


class Deadly(Transform):  # type: ignore[misc]
    """Dies of some ops and changes nothing."""

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """Abort at a `sin`, crash at a `cos`, sleep at a `tanh`."""
        for bsym in computation_trace.bound_symbols:
            if bsym.sym.name.endswith("sin"):
                os.abort()
            elif bsym.sym.name.endswith("cos"):
                ctypes.string_at(0)
            elif bsym.sym.name.endswith("tanh"):
                time.sleep(1000)
        return computation_trace


class Fragile(Transform):  # type: ignore[misc]
    """Dies of long traces and changes nothing."""

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """Abort at twenty bound symbols."""
        if len(computation_trace.bound_symbols) >= 20:
            os.abort()
        return computation_trace
