"""Which inputs of a region are read where they lie, instead of being copied into static buffers first.

Static inputs (parameters, buffers) are, until they keep moving. Inputs in lent graph memory are, if they are only read.
And once the inputs of an entry have come to rest, call after call at the same addresses, so are all that are only read:
the entry is captured once more for these addresses, and serves the calls that have them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

from cgverify.plan import InputRole, Region
from cgverify.runtime.guards import describe
from cgverify.runtime.runtime import Runtime

import torch

ADDRESSES_BEFORE_COPY = 2
"""How many addresses a static input may show before it is copied like any other."""

RESTS = 4
"""How often a region is captured once more because inputs had come to rest."""


class Places:
    """What a region knows of the addresses of its inputs.

    Args:
        region: the plan.
        runtime: knows what is lent, and after how many calls inputs are at rest.
    """

    def __init__(self, region: Region, runtime: Runtime) -> None:
        self._device = region.device
        self._runtime = runtime
        self._static = frozenset(k for k, entry in enumerate(region.inputs) if entry.role is InputRole.STATIC)
        # a written input stays copied wherever it lies: a lease may be read again, by a second backward
        self._only_read = frozenset(k for k, entry in enumerate(region.inputs) if not entry.written) - self._static
        self._shown: defaultdict[int, set[int]] = defaultdict(set)
        self._rests: set[Hashable] = set()
        self._left = RESTS

    @property
    def static(self) -> frozenset[int]:
        """Positions of the inputs that are read where they lie in any case."""
        return self._static

    def patience(self, in_place: frozenset[int]) -> float:
        """After how many calls in a row at the same addresses an entry's inputs are at rest; infinite for never.

        Args:
            in_place: positions of the inputs that it reads where they lie already.
        """
        after = self._runtime.in_place_after
        return math.inf if after is None or not self._left or self._only_read <= in_place else after

    def choices(self, args: Sequence[torch.Tensor]) -> list[frozenset[int]]:
        """Positions of the inputs to read where they lie: the best choice first, then one that will do as well."""
        moving = self._static | self.choose_lent(args)
        return [self._static | self._only_read, moving] if self.are_at_rest(args) else [moving]

    def choose_lent(self, args: Sequence[torch.Tensor]) -> frozenset[int]:
        """Positions of the inputs that lie in lent graph memory, and are only read."""
        return frozenset(k for k in self._only_read if self._runtime.is_lent(self._device, args[k]))

    def are_at_rest(self, args: Sequence[torch.Tensor]) -> bool:
        """Whether inputs with these layouts have come to rest at these addresses once."""
        return bool(self._rests) and describe(args, self._static | self._only_read) in self._rests

    def rest(self, args: Sequence[torch.Tensor]) -> bool:
        """Says that the inputs have come to rest; returns whether a capture for them is worth while.

        Not while graphs of the pool lend: a younger graph of one region makes those of others give way (`leases`).
        """
        if not self._left or self._runtime.pool(self._device).lenders:
            return False
        self._left -= 1
        self._rests.add(describe(args, self._static | self._only_read))
        return True

    def rest_no_more(self) -> None:
        """Knows of no inputs at rest from now on: a capture failed."""
        self._rests.clear()
        self._left = 0

    def note(self, args: Sequence[torch.Tensor]) -> bool:
        """Notes where static inputs lie; returns whether one has moved too often and is copied from now on.

        It would cost a capture for each address.
        """
        moving = set()
        for position in self._static:
            shown = self._shown[position]
            shown.add(args[position].data_ptr())
            if len(shown) > ADDRESSES_BEFORE_COPY:
                moving.add(position)
                shown.clear()
        self._static -= moving
        return bool(moving)
