"""Whether a forward and its backward trace still fit: saved values, cotangents, gradients, and what is taken as static.

The forward trace returns `{..., flat_args, flat_output}, (tensors, others)`; the backward trace takes the saved groups
and the cotangents, one per entry of `flat_output`, apart, and returns one gradient per entry of `flat_args`. Ops are
found by what they read, never by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cgverify.diagnostics import Diagnostic, Note, Severity, count
from cgverify.ir import Op, OpKind, TraceView, flat_names
from cgverify.verifier import registry
from cgverify.verifier.semantics import Proxy, is_static, metadata_of

if TYPE_CHECKING:
    from cgverify.verifier.region import Region
    from cgverify.verifier.subject import Subject


def saved_groups(forward: TraceView) -> list[tuple[str, ...]]:
    """Names in each group of saved values; empty if the trace saves nothing."""
    op = forward.return_op
    if op is None or len(op.bsym.args) != 2 or not isinstance(op.bsym.args[1], (tuple, list)):
        return []
    return [flat_names(group) for group in op.bsym.args[1]]


def check_pairing(forward: TraceView, backward: Subject) -> tuple[Diagnostic, ...]:
    """What does not fit between two rewritten traces."""
    unpacks = _unpacks(backward.after)
    return (*_check_saved(forward, backward, unpacks), *_check_counts(forward, backward, unpacks))


def _unpacks(backward: TraceView) -> dict[str, Op]:
    """Collection -> the op that takes it apart; Thunder drops it where nothing is used."""
    return {op.reads[0]: op for op in backward.ops if op.kind is OpKind.UNPACK and op.reads}


def _check_saved(forward: TraceView, backward: Subject, unpacks: dict[str, Op]) -> Iterator[Diagnostic]:
    """The backward trace takes apart as many saved values, of the same kinds, as the forward trace hands out."""
    parameters = backward.after.parameters
    first = unpacks.get(parameters[0]) if parameters else None
    groups = saved_groups(forward)
    if first is None:
        return
    if len(groups) != len(first.outputs):
        message = f"`{forward.name}` saves {count(len(groups), 'group')} of values; `{backward.after.name}` takes "
        yield _misfit(backward, first, f"{message}{len(first.outputs)}", ())
        return
    for saved, op in zip(groups, (unpacks.get(name) for name in first.outputs), strict=True):
        if op is None:
            continue
        taken = op.bsym.flat_proxy_outs
        notes = (Note(f"saved: {', '.join(saved) or 'none'}"), Note(f"taken: {', '.join(op.outputs) or 'none'}"))
        if len(saved) != len(op.bsym.flat_outs):
            message = f"`{forward.name}` saves {count(len(saved), 'value')}; `{backward.after.name}` takes "
            yield _misfit(backward, op, f"{message}{len(op.bsym.flat_outs)}", notes)
        elif len(saved) == len(taken):
            for name, proxy in zip(saved, taken, strict=True):
                given = forward.values.get(name)
                if given is not None and _differ(given, proxy):
                    message = (
                        f"`{forward.name}` saves `{name}`; `{backward.after.name}` takes another kind of value there"
                    )
                    yield _misfit(backward, op, message, notes)


def _differ(saved: Proxy, taken: Proxy) -> bool:
    """Whether shape, dtype or device differ; Thunder drops `requires_grad` on the way."""
    return metadata_of(saved)[:-1] != metadata_of(taken)[:-1]


def _check_counts(forward: TraceView, backward: Subject, unpacks: dict[str, Op]) -> Iterator[Diagnostic]:
    """One cotangent per result, one gradient per argument."""
    returned = _wrapped(forward)
    if returned is None:
        return
    parameters = backward.after.parameters
    op = unpacks.get(parameters[1]) if len(parameters) > 1 else None
    results = returned.get("flat_output")
    if op is not None and results is not None and len(op.bsym.output) != len(results):
        message = f"`{backward.after.name}` takes {count(len(op.bsym.output), 'gradient')} of results; "
        message += f"`{forward.name}` has {count(len(results), 'result')}"
        yield _misfit(backward, op, message, ())
    last = backward.after.return_op
    if last is not None and len(last.bsym.args) == 1 and isinstance(last.bsym.args[0], (tuple, list)):
        gradients, arguments = len(last.bsym.args[0]), len(returned["flat_args"])
        if gradients != arguments:
            message = f"`{backward.after.name}` returns {count(gradients, 'gradient')}; "
            message += f"`{forward.name}` has {count(arguments, 'argument')}"
            yield _misfit(backward, last, message, ())


def _wrapped(forward: TraceView) -> dict[str, Any] | None:
    op = forward.return_op
    first = op.bsym.args[0] if op is not None and op.bsym.args else None
    return first if isinstance(first, dict) and "flat_args" in first else None


def check_static(forward: Subject, backward: Subject) -> Iterator[Diagnostic]:
    """Saved values that the backward trace takes as static, and that need not stand where they stood at its capture.

    For runtimes that compare no addresses.
    """
    rule = registry.find("CG301")
    saved = {name for group in saved_groups(forward.after) for name in group}
    owned = {name: region for region in forward.captured for name in region.outputs}
    values = forward.after.values
    for region in backward.captured:
        for name in dict.fromkeys(p.name for p in region.op.bsym.flat_proxy_args if p.name in saved and is_static(p)):
            given = values.get(name)
            maker: Region | None = owned.get(name)
            if maker is None and given is not None and is_static(given):
                continue
            why = "nothing promises that it keeps its address"
            if maker is not None:
                why = f"it stands where the last replay of one entry of `{maker.name}` left it"
            message = f"`{region.name}` reads the saved value `{name}` at a fixed address, which nothing compares"
            severity = Severity.ERROR if maker is None else rule.severity
            help = "compare the address before each replay, and copy the value or capture again if it changed"
            yield rule.diagnose(registry.Finding(message, backward.at(region.op), (Note(why),), help, severity))


def _misfit(backward: Subject, op: Op, message: str, notes: tuple[Note, ...]) -> Diagnostic:
    help = "rewrite forward and backward trace from the pair that Thunder made together"
    return registry.find("CG108").diagnose(registry.Finding(message, backward.at(op), notes, help))
