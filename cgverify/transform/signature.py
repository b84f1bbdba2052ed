"""The signature of an emitted trace that consists of regions alone: it spares them Thunder's decorators.

Thunder writes `@torch.no_grad()` and `@no_autocast` above the function of each trace. A region switches both off by
itself where it matters, at a fraction of the cost, so above a function of regions alone the two are pure cost: on the
host more than the guards. Thunder asks the signature for the line that follows the decorators, and this one puts an
empty function there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thunder.core import prims
from thunder.core.codeutils import SigInfo
from thunder.core.trace import TraceCtx
from thunder.executors.transformer_engine_v1ex import _is_te_linear_enabled

DECORATED = "def decorated(): ...  # not the function below: its regions switch gradients and autocast off themselves"

_BOOKKEEPING = frozenset(
    {
        prims.PrimIDs.UNPACK_TRIVIAL,
        prims.PrimIDs.UNPACK_SEQUENCE,
        prims.PrimIDs.COMMENT,
        prims.PrimIDs.DEL,
        prims.PrimIDs.RETURN,
        "clear_mutable_collection",
    }
)
"""Ids of symbols that compute nothing."""


class RegionSignature(SigInfo):
    """A signature like another one, for a trace with regions.

    Args:
        signature: the other one.
        regions: names of the regions' symbols.
    """

    def __init__(self, signature: SigInfo, regions: Iterable[str]) -> None:
        super().__init__(signature.name)
        self.__dict__ |= signature.__dict__
        self.regions = frozenset(regions) | getattr(signature, "regions", frozenset())

    def prettyprint(self, *, trace: TraceCtx | None = None, **contexts: Any) -> str:
        """The `def` line; below the decorated empty function while the trace has regions and bookkeeping alone.

        Passes behind ours keep the signature and may add ops, so the trace is looked at each time.
        """
        line: str = super().prettyprint(trace=trace, **contexts)
        if trace is None or not all(map(self._needs_no_decorators, trace.bound_symbols)) or _is_wrapped(**contexts):
            return line
        return f"{DECORATED}\n\n\n{line}"

    def _needs_no_decorators(self, bsym: Any) -> bool:
        return bsym.sym.id in _BOOKKEEPING or (bsym.sym.is_fusion and bsym.sym.name in self.regions)


def _is_wrapped(import_ctx: Any = None, object_ctx: Any = None) -> bool:
    """Whether Thunder puts Transformer Engine's decorator there too, which switches FP8 on: that one is needed."""
    return bool(_is_te_linear_enabled(import_ctx or {}, object_ctx or {}))
