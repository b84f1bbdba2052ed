"""What each region does with its inputs and outputs.

An input is *static* when its address is promised stable: Thunder tags parameters and buffers so, and an identity keeps
the promise (Thunder itself drops the tag there). It is *written* when some op of the region writes it or a value of the
region that may share its memory. An output is needed when anything after the region uses it; it *may alias an input*
when the region's own ops can make it a view of one, and is *lent* when neither it nor anything that may share its
memory is handed to the caller: it is saved for the backward, or used by later ops only.

Overlap between inputs through the caller's memory is not judged here: it depends on the call, and the runtime looks at
the real addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cgverify.ir import TraceView, is_tensor
from cgverify.plan import InputRole, OutputRole, Region, RegionInput, RegionOutput
from cgverify.transform.aliases import AliasSets, compute_aliases
from cgverify.transform.effects import Effects
from cgverify.transform.footprint import compute_footprint
from cgverify.transform.liveness import Liveness
from cgverify.transform.partition import Phase
from cgverify.transform.tables import IDENTITIES

from thunder.core.proxies import ProxyTag


@dataclass(frozen=True, slots=True)
class Addresses:
    """What a trace shows of the memory behind its values.

    Attributes:
        static: names whose address is promised stable.
        handed_out: names that the caller gets, or that may share memory with one it gets.
    """

    static: frozenset[str]
    handed_out: frozenset[str]


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A phase and its position in the order of phases."""

    phase: Phase
    position: int


def compute_static_names(view: TraceView, inherited: frozenset[str] = frozenset()) -> frozenset[str]:
    """Names whose address is promised stable: tagged proxies, what identities make of them, and `inherited` ones.

    Args:
        view: the trace.
        inherited: names that are static in the paired forward trace; a backward trace's proxies carry no tags.
    """
    static = {
        name
        for name, proxy in view.values.items()
        if is_tensor(proxy) and (name in inherited or ProxyTag.STATIC_MEMORY_LOCATION in proxy.tags)
    }
    for op in view.ops:
        if op.id in IDENTITIES:
            pairs = zip(op.bsym.flat_proxy_args, op.bsym.flat_proxy_outs, strict=False)
            static.update(result.name for argument, result in pairs if argument.name in static)
    return frozenset(static)


def compute_addresses(view: TraceView, aliases: AliasSets, inherited: frozenset[str] = frozenset()) -> Addresses:
    """What `choose_region` needs to know of the whole trace.

    Args:
        view: the trace.
        aliases: of the whole trace.
        inherited: names that are static in the paired forward trace.
    """
    reached = {aliases.representative(name) for name in view.handed_out}
    handed_out = frozenset(name for name in view.values if aliases.representative(name) in reached)
    return Addresses(compute_static_names(view, inherited), handed_out)


def choose_region(
    view: TraceView,
    effects: Sequence[Effects],
    liveness: Liveness,
    addresses: Addresses,
    scheduled: Scheduled,
    name: str,
) -> Region:
    """The region that graphs one capturable phase: inputs in order of first use, outputs in order of definition."""
    ops = [view.ops[index] for index in scheduled.phase.ops]
    defined: dict[str, None] = {}
    inputs: dict[str, None] = {}
    for op in ops:
        inputs.update(dict.fromkeys(read for read in op.reads if read not in defined))
        defined.update(dict.fromkeys(op.defines))
    outputs = [value for value in defined if liveness.is_live_after(value, scheduled.position)]
    sets = compute_aliases(view, effects, ops, caller_is_one=False)
    written = {sets.representative(value) for op in ops for value in effects[op.index].writes}
    incoming = {sets.representative(value) for value in inputs}

    def role(value: str) -> OutputRole:
        if sets.representative(value) in incoming:
            return OutputRole.MAY_ALIAS_INPUT
        return OutputRole.FRESH if value in addresses.handed_out else OutputRole.LENT

    return Region(
        name=name,
        ops=scheduled.phase.ops,
        inputs=tuple(
            RegionInput(
                value,
                InputRole.STATIC if value in addresses.static else InputRole.COPIED,
                sets.representative(value) in written,
            )
            for value in inputs
        ),
        outputs=tuple(RegionOutput(value, role(value)) for value in outputs),
        device=str(scheduled.phase.device),
        random=any(effects[op.index].random for op in ops),
        needs=compute_footprint(view, ops, sets, outputs),
    )
