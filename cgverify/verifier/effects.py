"""What a region does to its arguments: which it writes, which results may share memory with one, whether it draws.

Facts per region, by parameter name. Transfer: an identity or view hands its argument's set of parameters on; a write
marks every parameter in the set. Direction: forward, one walk. Not covered: which of two parameters that alias each
other is meant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cgverify.ir import Op
from cgverify.verifier.semantics import Facts

if TYPE_CHECKING:
    from cgverify.verifier.region import Region


@dataclass(frozen=True, slots=True)
class RegionEffects:
    """What one execution of a region does.

    Attributes:
        writes: parameter -> the first op that may write its memory.
        writes_nothing: whether no op writes any memory at all, its own included.
        aliases: output's position -> parameters whose memory it may share.
        draws: the first op that draws random numbers.
    """

    writes: dict[str, Op]
    writes_nothing: bool
    aliases: dict[int, tuple[str, ...]]
    draws: Op | None


def compute_region_effects(region: Region, facts: Callable[[Op], Facts]) -> RegionEffects:
    """Walks the region's ops once."""
    share: dict[str, tuple[str, ...]] = {name: (name,) for name in region.parameters}
    writes: dict[str, Op] = {}
    writes_nothing = True
    draws: Op | None = None
    for op in region.computing:
        known = facts(op)
        if draws is None and known.draws:
            draws = op
        for name in known.writes:
            for parameter in share.get(name, ()):
                writes.setdefault(parameter, op)
        writes_nothing = writes_nothing and not (known.writes or known.writes_own)
        for name in op.defines:
            sources = known.views.get(name, ())
            share[name] = tuple(dict.fromkeys(p for source in sources for p in share.get(source, ())))
    aliases = {position: shared for position, name in enumerate(region.results) if (shared := share.get(name, ()))}
    return RegionEffects(writes, writes_nothing, aliases, draws)
