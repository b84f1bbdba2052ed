"""The transform as a Thunder plugin: ``thunder.compile(model, plugins=[cgverify.ReduceOverhead()])``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cgverify.api import CUDAGraphTransform

from thunder.core.recipe import Plugin, PluginPolicy
from thunder.core.transform_common import Transform


class ReduceOverhead(Plugin):
    """Adds `CUDAGraphTransform` to a recipe, after every other transform, where Thunder's plugin adds its own.

    Args:
        settings: those of `CUDAGraphTransform`.

    Attributes:
        transforms: one for each model compiled with this plugin, in order; their `report()` and `stats()` say what
            became of each.

    Raises:
        TypeError: there is no such setting.
        ValueError: a setting has an unknown value.
    """

    policy = PluginPolicy.POST

    def __init__(self, **settings: Any) -> None:
        CUDAGraphTransform(**settings)  # says now what is wrong with them
        self._settings: Mapping[str, Any] = settings
        self.transforms: list[CUDAGraphTransform] = []

    def setup_transforms(self) -> list[Transform]:
        """A transform for one model: graphs of two models are bounded, reported and dropped apart."""
        transform = CUDAGraphTransform(**self._settings)
        self.transforms.append(transform)
        return [transform]
