"""Skips what this machine cannot run, with the reason; fails it instead where a GPU is required."""

from __future__ import annotations

import os

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked ``gpu`` where there is no GPU, unless ``CGVERIFY_REQUIRE_GPU=1`` forbids skipping them."""
    if torch.cuda.is_available() or os.environ.get("CGVERIFY_REQUIRE_GPU") == "1":
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and torch.cuda.is_available() says no"))
