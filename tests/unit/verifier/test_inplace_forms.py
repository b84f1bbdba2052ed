"""In-place ops as Thunder's torch language spells them, which is how they stand in a fusion: each writes its first."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.verifier.semantics import compute_facts

import pytest
import thunder.torch as ltorch
from thunder.core import dtypes
from thunder.core.devices import Device
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.core.trace import TraceCtx, tracectx

OPS = {
    str(symbol.name): symbol
    for symbol in vars(ltorch).values()
    if isinstance(symbol, Symbol) and str(symbol.name).endswith("_") and not str(symbol.name).startswith("_")
}


def _calls(symbol: Symbol) -> Iterator[BoundSymbol]:
    """The symbol called with one, two or three tensors, as many as it takes."""
    for dtype in (dtypes.float32, dtypes.int64, dtypes.bool8):
        for extra in range(3):
            trace = TraceCtx(None)
            with tracectx(trace):
                names = ("x", "y", "z")[: extra + 1]
                given = [TensorProxy(n, shape=(2,), device=Device("cuda:0"), dtype=dtype) for n in names]
                try:
                    symbol(*given)
                except Exception:  # it takes another number or kind of arguments
                    continue
            yield trace.bound_symbols[-1]


@pytest.mark.parametrize("name", sorted(OPS))
def test_the_first_argument_is_written(name: str) -> None:
    """Whatever the spelling, the schema and the decomposition agree on the argument that is written."""
    calls = list(_calls(OPS[name]))
    assert {compute_facts(bsym).writes for bsym in calls} <= {("x",)}


def test_most_are_called() -> None:
    """All but a few of the ops can be called with plain tensors."""
    called = [name for name, symbol in OPS.items() if next(_calls(symbol), None) is not None]
    assert len(called) > 0.8 * len(OPS)
    assert "copy_" in called
