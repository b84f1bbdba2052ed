"""Results of graphs: who owns the memory that a region returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cgverify.diagnostics import Note
from cgverify.ir import OpKind
from cgverify.plan import OutputRole
from cgverify.verifier.pairing import saved_groups
from cgverify.verifier.region import Region
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.semantics import TensorProxy
from cgverify.verifier.subject import Subject


@rule("CG302", "live-output-overwritten")
def live_output_overwritten(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No result of a captured region reaches RETURN, itself or through views, under a contract whose runtime hands out
        the graph's own memory. A result that a plan lends may be saved for the backward trace, and reaches the caller
        neither.

    Why it is wrong
        The next replay overwrites what the caller still holds: results of earlier calls change, saved tensors of a
        pending backward too.

    Example
        [t0] = CUDAGraph0(x)
        return (t0,)

    Instead
        Hand out copies in fresh memory.

    Not covered
        Whether the caller keeps the result beyond the next call.
    """
    lends = any(_is_lent(region, at) for region in subject.captured for at in range(len(region.outputs)))
    if subject.contract.fresh_outputs and not lends:
        return
    returned = frozenset[str]() if subject.contract.fresh_outputs else _escaping(subject, subject.after.returned)
    handed_out = _escaping(subject, subject.after.handed_out) if lends else frozenset[str]()
    for region in subject.captured:
        aliases = subject.effects(region).aliases
        for position, proxy in enumerate(region.op.bsym.flat_proxy_outs):
            escaping = handed_out if _is_lent(region, position) else returned
            if isinstance(proxy, TensorProxy) and proxy.name in escaping and position not in aliases:
                yield Finding(
                    f"`{proxy.name}` leaves `{region.name}` in graph memory, which the next replay overwrites",
                    subject.at(region.op),
                    _return_note(subject),
                    "return a copy in memory of its own",
                )


@rule("CG303", "output-aliases-input")
def output_aliases_input(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        A result of a captured region that may be an argument, or a view of one, is marked so in the plan; without a
        plan, the contract must keep such views.

    Why it is wrong
        The caller gets a view of a private copy: writes to it no longer reach the caller's own tensor, and the next
        replay overwrites it.

    Example
        [t0] = CUDAGraph0(x)
          # t0 = torch.reshape(x, (16,))

    Instead
        Make the view again from the caller's tensor after each replay.

    Not covered
        Views of values that the region computes itself.
    """
    for region in subject.captured:
        for position, parameters in subject.effects(region).aliases.items():
            if _is_kept(subject, region, position) or position >= len(region.outputs):
                continue
            name = region.outputs[position]
            yield Finding(
                f"`{name}` may be a view of the copy of `{parameters[0]}` that `{region.name}` works on",
                subject.at(region.op),
                (Note(_OWN if region.claim else _NOT_AGAIN),),
                "mark the output as a possible view of an input, and make it again from the caller's tensor",
            )


@rule("CG305", "pool-replay-order")
def pool_replay_order(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Under a contract whose graphs share a memory pool and hand out the pool's own memory: no result of a captured
        region is saved for the backward trace.

    Why it is wrong
        Other graphs of the pool may use the memory while the backward trace still needs it: two forward calls before
        the first backward overwrite the saved tensor.

    Example
        [t0] = CUDAGraph0(x)
        return {...}, ((t0,), ())

    Instead
        Give the pool to one graph, or hand out copies.

    Not covered
        The order in which two functions are called. What one graph alone overwrites: CG302.
    """
    if not subject.contract.shares_pool or subject.contract.fresh_outputs:
        return
    saved = {name for group in saved_groups(subject.after) for name in group}
    for region in subject.captured:
        aliases = subject.effects(region).aliases
        for position, name in enumerate(region.outputs):
            if name in saved and position not in aliases:
                yield Finding(
                    f"`{name}`, saved for backward, is in memory that `{region.name}` shares with other graphs",
                    subject.at(region.op),
                    _return_note(subject),
                    "save a copy, or give each graph a memory pool of its own",
                )


_OWN = "the plan says that its memory is its own"
_NOT_AGAIN = "the runtime does not make the view again from the caller's tensor"


def _is_kept(subject: Subject, region: Region, position: int) -> bool:
    if region.claim is None:
        escaping = _escaping(subject, subject.after.returned)
        return subject.contract.views_kept or region.outputs[position] not in escaping
    outputs = region.claim.outputs
    return position >= len(outputs) or outputs[position].role is OutputRole.MAY_ALIAS_INPUT


def _is_lent(region: Region, position: int) -> bool:
    """Whether the plan leaves a result in graph memory."""
    outputs = () if region.claim is None else region.claim.outputs
    return position < len(outputs) and outputs[position].role is OutputRole.LENT


def _escaping(subject: Subject, listed: Iterable[str]) -> frozenset[str]:
    """Names whose memory RETURN may hand out: what it lists, and what that may be a view of."""
    names = set(listed)
    for op in reversed(subject.after.ops):
        if op.kind is not OpKind.COMPUTE:
            continue
        facts = subject.facts(op)
        for name in op.outputs:
            if name in names:
                names.update(facts.views.get(name, ()))
    return frozenset(names)


def _return_note(subject: Subject) -> tuple[Note, ...]:
    op = subject.after.return_op
    return () if op is None else (Note("it is returned here", subject.at(op)),)
