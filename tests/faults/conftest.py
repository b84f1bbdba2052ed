"""Makes compiling cheaper under pytest."""

from __future__ import annotations

import functools
import inspect

import pytest


@pytest.fixture(autouse=True)
def shallow_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare Thunder the source of each frame on the stack: it asks at every compilation, and uses one frame's name."""
    monkeypatch.setattr(inspect, "stack", functools.partial(inspect.stack, context=0))
