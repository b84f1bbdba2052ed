"""Signatures of regions: call, body, text and plan agree on arguments and results."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.diagnostics import Note
from cgverify.verifier.region import Region
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.subject import Subject


@rule("CG103", "region-signature-mismatch")
def region_signature_mismatch(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        A region is called with as many arguments as its body has parameters and binds as many results as it returns;
        a region without a body defines each output by its subsymbols and uses only its arguments. Where the region
        carries a plan, the region's name, its arguments and results, and their order agree with the plan, on the call,
        in the body and in its text, and the plan of a region in which no op writes calls no input written. Where
        captured regions carry plans, all do.

    Why it is wrong
        Arguments go by position and copies by the plan: what is off computes with, or overwrites, the wrong tensors,
        silently if the shapes fit. An input that is written by the plan alone is copied back over what the caller may
        have put there since.

    Example
        [t2] = CUDAGraph0(y, x)      # the body is CUDAGraph0(x, y)

    Instead
        Build call, body and plan from one list of inputs and one list of outputs.

    Not covered
        Whether an input is needed: an unused input costs a copy. A plan that says that the region draws random numbers
        where it draws none costs nothing. Which of its inputs a region that writes may write is the plan's to say with
        caution: that none is missing is CG401's.
    """
    for region in subject.regions:
        for what, notes in (*_signature_faults(region), *_plan_faults(subject, region)):
            yield Finding(
                f"region `{region.name}` {what}",
                subject.at(region.op),
                tuple(Note(note) for note in notes),
                "build the call, the body, its code and the plan from the same lists",
            )


def _signature_faults(region: Region) -> Iterator[tuple[str, tuple[str, ...]]]:
    if region.called is None:
        yield "has no callable: its bound symbol's `_call_ctx` does not hold one", ()
    if not isinstance(region.op.bsym.output, (list, tuple)):
        yield "does not bind a list of results", ()
    if region.body is None:
        yield from _closure_faults(region)
        return
    sides = {"the call has": region.arguments, "the body has": region.parameters}
    results = {"the call has": region.outputs, "the body has": region.results}
    if region.text is not None and region.text.function is not None:
        sides["the executed code has"] = region.text.parameters
    if region.claim is not None:
        sides["the plan has"] = tuple(entry.name for entry in region.claim.inputs)
        results["the plan has"] = tuple(entry.name for entry in region.claim.outputs)
    for what, lists in (("arguments", sides), ("results", results)):
        if len({len(names) for names in lists.values()}) > 1:
            yield f"has lists of {what} of different lengths", _listed(lists)
        elif region.claim is not None and len(set(lists.values())) > 1:
            yield f"has lists of {what} that disagree", _listed(lists)


def _plan_faults(subject: Subject, region: Region) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What a plan says that is not so, but for the lists and roles that have rules of their own."""
    claim = region.claim
    if claim is None:
        planned = next((other.name for other in subject.captured if other.claim is not None), None)
        if planned is not None and region in subject.captured:
            yield "is captured without a plan", (f"`{planned}` has one",)
        return
    if claim.name != region.name:
        yield f"is called `{claim.name}` by its plan", ()
    for entry in claim.inputs if subject.effects(region).writes_nothing else ():
        if entry.written:
            yield f"does not write `{entry.name}`, which its plan calls written", ()


def _listed(lists: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(f"{side}: {', '.join(names) or 'none'}" for side, names in lists.items())


def _closure_faults(region: Region) -> Iterator[tuple[str, tuple[str, ...]]]:
    defined = set(region.arguments)
    for op in region.computing:
        missing = [name for name in op.reads if name not in defined]
        if missing:
            yield f"uses `{missing[0]}`, which is not an argument of it", (f"`{op.name}` uses it",)
        defined.update(missing)
        defined.update(op.outputs)
    for name in region.outputs:
        if name not in defined:
            yield f"returns `{name}`, which none of its ops computes", ()
