"""What every reproducer script brings along to compare values."""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.reproducer import LOOK

import pytest
import torch


@pytest.mark.parametrize("value", [float("nan"), -0.0, float("inf"), 1.5])
def test_equal_bits_are_equal_content(value: float) -> None:
    """A script calls two tensors of the same bits equal, NaNs too, and tells 0.0 from -0.0."""
    script: dict[str, Any] = {"torch": torch}
    exec(LOOK, script)
    content = script["content"]
    assert content(torch.full((2,), value)) == content(torch.full((2,), value))
    assert content(torch.full((2,), value)) != content(torch.tensor([value, 0.0]))
