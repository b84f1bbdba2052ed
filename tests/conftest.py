"""Skips what this machine cannot run, with the reason; refuses to skip it where a GPU is required."""

from __future__ import annotations

import os

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked ``gpu`` where there is no GPU; under ``CGVERIFY_REQUIRE_GPU=1`` stop instead.

    Raises:
        pytest.UsageError: a GPU is required, and there is none, or no test for it was selected.
    """
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if os.environ.get("CGVERIFY_REQUIRE_GPU") == "1":
        if not torch.cuda.is_available():
            raise pytest.UsageError(
                "CGVERIFY_REQUIRE_GPU=1, but torch.cuda.is_available() says no: run on a GPU or unset it"
            )
        if not gpu_tests:
            raise pytest.UsageError(
                "CGVERIFY_REQUIRE_GPU=1, but no test marked gpu was selected: add tests/gpu or unset it"
            )
    elif not torch.cuda.is_available():
        for item in gpu_tests:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device, and torch.cuda.is_available() says no"))
