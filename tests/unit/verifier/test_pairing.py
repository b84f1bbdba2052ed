"""Forward and backward together: what each alone cannot show."""

from __future__ import annotations

from collections.abc import Callable

from cgverify.api import CUDAGraphTransform
from cgverify.emulation import EmulatedCUDA
from cgverify.fuzzing import edits
from cgverify.verifier import verify_backward
from cgverify.watching import Pair, WatchedTransform

import pytest
import thunder
import torch
from thunder.core import dtypes
from thunder.core.proxies import TensorProxy, variableify
from thunder.core.trace import TraceCtx


@pytest.fixture(scope="module")
def pairs() -> tuple[Pair, Pair]:
    """Forward and backward of a function with three saved tensors."""
    with EmulatedCUDA(), torch.random.fork_rng(devices=[]):
        x, y = (torch.ones(2, 3, device="cuda", requires_grad=True) for _ in range(2))
        watched = WatchedTransform(CUDAGraphTransform(verify=False), runs=False)
        thunder.jit(lambda x, y: torch.sin(x * y) * y.sum(), transforms=[watched])(x, y)
    forward, backward = watched.rewritten
    return forward, backward


def saved(trace: TraceCtx) -> tuple[tuple[TensorProxy, ...], ...]:
    """The groups of saved values."""
    groups: tuple[tuple[TensorProxy, ...], ...] = trace.bound_symbols[-1].args[1]
    return groups


def saving(trace: TraceCtx, groups: object) -> TraceCtx:
    """The trace with other saved values."""
    last = trace.bound_symbols[-1]
    return edits.replaced(trace, len(trace.bound_symbols) - 1, last.from_bsym(args=(last.args[0], groups)))


def test_a_pair_that_fits(pairs: tuple[Pair, Pair]) -> None:
    """Nothing is said of a pair as it was made."""
    forward, backward = pairs
    assert len(saved(forward[1])[0]) >= 2
    assert verify_backward(*backward, forward=forward).diagnostics == ()


def other_kind(trace: TraceCtx) -> TraceCtx:
    """The first saved value has another dtype."""
    first = saved(trace)[0][0]
    swap = {variableify(first): edits.like(first, dtype=dtypes.float64)}
    return edits.with_ops(trace, [bsym.from_bsym_swap_proxies(swap) for bsym in trace.bound_symbols])


def returning_less(trace: TraceCtx) -> TraceCtx:
    """The forward trace without its last result."""
    last = trace.bound_symbols[-1]
    wrapped = last.args[0] | {"flat_output": last.args[0]["flat_output"][:-1]}
    return edits.replaced(trace, len(trace.bound_symbols) - 1, last.from_bsym(args=(wrapped, *last.args[1:])))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda trace: saving(trace, (saved(trace)[0][:-1], saved(trace)[1])), "values; `"),
        (lambda trace: saving(trace, saved(trace)[:1]), "saves 1 group of values; `"),
        (other_kind, "takes another kind of value"),
        (returning_less, " of results; `"),
    ],
)
def test_a_pair_that_does_not_fit(
    change: Callable[[TraceCtx], TraceCtx], message: str, pairs: tuple[Pair, Pair]
) -> None:
    """What the forward trace hands out and the backward trace takes apart must agree in number and kind."""
    forward, backward = pairs
    report = verify_backward(*backward, forward=(forward[0], change(forward[1])))
    assert report.codes == ("CG108",)
    assert any(message in found.message for found in report.diagnostics), report.render()
