"""Ways to call models, with graphs and without: `pytest tests/models --cgverify-profile nightly` runs all of them."""

from __future__ import annotations

from typing import Any

from cgverify import CUDAGraphTransform
from tests.models.patterns import PATTERNS

import pytest
import thunder
import torch
from torch.utils._pytree import tree_leaves

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")

ALWAYS = ("alternating_batch_sizes", "two_models_in_turn")
"""Those that run by every profile; the others take half a minute together."""


@pytest.mark.parametrize("name", PATTERNS)
def test_same_as_without_graphs(name: str, cuda: Any, request: pytest.FixtureRequest) -> None:
    """Losses, gradients, weights, samples and the generator are those of Thunder without graphs, and graphs replay."""
    if name not in ALWAYS and request.config.getoption("--cgverify-profile") != "nightly":
        pytest.skip("runs with --cgverify-profile nightly")
    transforms: list[CUDAGraphTransform] = []

    def graphed(function: Any) -> Any:
        transforms.append(CUDAGraphTransform())
        return thunder.jit(function, transforms=transforms[-1:])

    wanted, found = (tree_leaves(PATTERNS[name](compile)) for compile in (thunder.jit, graphed))
    assert len(wanted) == len(found) and all(map(torch.equal, wanted, found))
    assert all(transform.stats().replays > 1 for transform in transforms)
