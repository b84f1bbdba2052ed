"""A function of regions alone runs without Thunder's decorators, and any other one with them."""

from __future__ import annotations

from typing import Any

from cgverify import CUDAGraphTransform
from cgverify.transform.signature import DECORATED
from tests.faults.pairs import CALLS, Pair, randn, step

import pytest
import thunder
import torch
from thunder.dev_utils.nvtx_profile_transform import NvtxProfileTransform

pytestmark = pytest.mark.usefixtures("cuda")


def is_decorated(function: Any) -> bool:
    """Whether Thunder's decorators wrap the function."""
    return hasattr(function, "__wrapped__")


def test_regions_alone_are_not_decorated() -> None:
    """Forward and backward lose the decorators; results, gradients and the caller's settings are as without graphs."""
    pair = Pair(lambda x, y: (x @ y).sin() * x)
    for seed in range(CALLS):
        with torch.autocast("cuda", torch.bfloat16, enabled=seed % 2 == 1):
            pair.do(lambda jitted: step(jitted, randn(4, 4).requires_grad_(), randn(4, 4).requires_grad_()), seed)
            assert torch.is_grad_enabled()
            assert torch.is_autocast_enabled("cuda") is (seed % 2 == 1)
    entries = thunder.compile_stats(pair.graphed).interpreter_cache
    assert [is_decorated(f) for entry in entries for f in (entry.computation_fn, entry.backward_fn)] == [False] * 4
    for trace in (thunder.last_traces(pair.graphed)[-1], thunder.last_backward_traces(pair.graphed)[-1]):
        assert trace.python().count(DECORATED) == 1
    pair.assert_graphed()


def test_results_of_undecorated_functions_carry_no_gradient_of_ours() -> None:
    """A trace that is called directly, with arguments that require gradients, computes none."""
    jitted = thunder.jit(lambda x: (x * 2).sin(), transforms=[CUDAGraphTransform()])
    jitted(randn(4))
    function = thunder.last_traces(jitted)[-1].python_callable()
    assert not is_decorated(function)
    for _ in range(CALLS):
        (result,) = function(randn(4).requires_grad_())
        assert (result.requires_grad, result.grad_fn) == (False, None)


def test_anything_beside_regions_keeps_the_decorators() -> None:
    """An op that is left out needs them, and so does what a transform behind ours adds."""
    read = Pair(lambda x: x.sin() * x.sum().item())
    marked = thunder.jit(lambda x: x.sin() + 1, transforms=[CUDAGraphTransform(), NvtxProfileTransform()])
    plain = thunder.jit(lambda x: x.sin() + 1)
    for seed in range(CALLS):
        read.agree(lambda: (randn(4),), seed)
        x = randn(4)
        assert torch.equal(marked(x), plain(x))
    for jitted in (read.graphed, marked, plain):
        assert is_decorated(thunder.compile_stats(jitted).interpreter_cache[-1].computation_fn)
        assert DECORATED not in thunder.last_traces(jitted)[-1].python()


def test_an_error_in_a_region_leaves_the_settings_as_they_were() -> None:
    """Gradients and autocast are the caller's again after the body raised."""
    jitted = thunder.jit(lambda x, y: (x * y).sin() + 1, transforms=[CUDAGraphTransform()])
    jitted(randn(4), randn(4))
    function = thunder.last_traces(jitted)[-1].python_callable()
    with torch.autocast("cuda", torch.bfloat16), pytest.raises(RuntimeError):
        function(randn(4), randn(3))
    assert torch.is_grad_enabled()
    with torch.autocast("cuda", torch.bfloat16):
        assert torch.is_autocast_enabled("cuda")
