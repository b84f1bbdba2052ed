"""Which inputs of a region are read where they lie, instead of being copied into static buffers first.

Static inputs (parameters, buffers) are, until they keep moving. Inputs in lent graph memory are, if they are only read.
And once all inputs have come to rest, call after call at the same addresses, so is each that is only read: the region
is captured once more for these addresses, and copies none of them as long as they hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from cgverify.plan import InputRole, Region
from cgverify.runtime.runtime import Runtime

import torch

ADDRESSES_BEFORE_COPY = 2
"""How many addresses a static input may show before it is copied like any other."""

RESTS = 4
"""For how many sets of addresses a region is captured once more, because its inputs had come to rest there."""


class Places:
    """What a region knows of the addresses of its inputs.

    Args:
        region: the plan.
        runtime: knows what is lent.
    """

    def __init__(self, region: Region, runtime: Runtime) -> None:
        self._device = region.device
        self._runtime = runtime
        self._static = frozenset(k for k, entry in enumerate(region.inputs) if entry.role is InputRole.STATIC)
        # a written input stays copied wherever it lies: a lease may be read again, by a second backward
        self._only_read = frozenset(k for k, entry in enumerate(region.inputs) if not entry.written) - self._static
        self._shown: defaultdict[int, set[int]] = defaultdict(set)
        self._rests: set[tuple[int, ...]] = set()
        self._may_rest = runtime.in_place_after is not None

    @property
    def static(self) -> frozenset[int]:
        """Positions of the inputs that are read where they lie in any case."""
        return self._static

    @property
    def rests_after(self) -> int:
        """After how many calls in a row at the same addresses inputs are at rest; 0 for never, or never again."""
        after = self._runtime.in_place_after
        return after if after is not None and self._may_rest and len(self._rests) < RESTS else 0

    def choose(self, args: Sequence[torch.Tensor]) -> frozenset[int]:
        """Positions of the inputs to read where they lie."""
        if self._rests and _addresses(args) in self._rests:
            return self._static | self._only_read
        return self._static | self.choose_lent(args)

    def choose_lent(self, args: Sequence[torch.Tensor]) -> frozenset[int]:
        """Positions of the inputs that lie in lent graph memory, and are only read."""
        return frozenset(k for k in self._only_read if self._runtime.is_lent(self._device, args[k]))

    def rest(self, args: Sequence[torch.Tensor]) -> bool:
        """Says that the inputs have come to rest; returns whether more of them are now read where they lie.

        Not while graphs of the pool lend: a younger graph of one region makes those of others give way (`leases`).
        """
        if not self.rests_after or self._runtime.pool(self._device).lenders:
            return False
        before = self.choose(args)
        self._rests.add(_addresses(args))
        return self.choose(args) != before

    def rest_no_more(self) -> None:
        """Copies inputs from now on, wherever they lie: a capture failed."""
        self._rests.clear()
        self._may_rest = False

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


def _addresses(args: Sequence[torch.Tensor]) -> tuple[int, ...]:
    return tuple(map(torch.Tensor.data_ptr, args))
