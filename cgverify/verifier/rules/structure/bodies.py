"""Bodies of regions: what a region prints, what its body says and what it executes are one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from cgverify.diagnostics import Note, Severity, count
from cgverify.ir import Op, OpKind
from cgverify.verifier.region import Region
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.semantics import Proxy
from cgverify.verifier.statements import mismatch
from cgverify.verifier.subject import Subject
from cgverify.verifier.values import literal_key, symbol_key


@rule("CG104", "region-body-mismatch")
def region_body_mismatch(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        What a region executes is what it prints: the text that its callable executes (`.source`) says, statement by
        statement, what the bound symbols of its body (`.body`) say, and those are its subsymbols, in order, and the
        ops of the trace before that its plan lists.

    Why it is wrong
        A proof about the ops that a region prints says nothing about a callable that runs other ops.

    Example
        [t2] = CUDAGraph0(x, y)
          # t2 = torch.add(x, y)     # but the executed text reads: t2 = torch.sub(x, y)

    Instead
        Make the text from the body, the body from the ops that the region replaces, and change none of them later.

    Not covered
        A region of somebody else's that carries no `.body` is judged by its subsymbols, and what it executes is not
        looked at; the report says so in a note. Objects passed by a generated name are not compared.
    """
    for region in subject.regions:
        if region.body is None:
            yield Finding(
                f"region `{region.name}` does not show the code that it executes",
                subject.at(region.op),
                (Note("it was judged by the ops that it prints"),),
                "let its callable keep its ops as `.body` and its code as `.source`; see `cgverify explain CG104`",
                Severity.NOTE,
            )
            continue
        found = _claimed(region)
        if found is not None:
            op, printed = found
            yield Finding(
                f"the body of region `{region.name}` has other ops than the region prints",
                subject.at(region.op) if op is None else subject.inside(region, op),
                (Note(f"the region prints: {printed}"),),
                "make the region's subsymbols and its body from the same ops",
            )
        stray = _stray_claim(subject, region)
        if stray:
            yield Finding(
                f"the plan of region `{region.name}` names other ops than its body has",
                subject.at(region.op),
                (Note(stray),),
                "keep the plan and the body in step",
            )
        if region.text is None:
            yield Finding(
                f"region `{region.name}` has a body but does not show the code that it executes",
                subject.at(region.op),
                help="let the region's callable keep its code as `.source`",
            )
        elif region.text.function is not None:
            yield from _executed(subject, region)


def _claimed(region: Region) -> tuple[Op | None, str] | None:
    """The first op of the body that is not the subsymbol at its place."""
    subsymbols = [op for op in region.op.children if op.kind is OpKind.COMPUTE]
    for op, claim in zip(region.computing, subsymbols, strict=False):
        if op.bsym is not claim.bsym and _shape(op) != _shape(claim):
            return op, _say(claim)
    if len(region.computing) > len(subsymbols):
        return region.computing[len(subsymbols)], "nothing more"
    if len(subsymbols) > len(region.computing):
        return None, _say(subsymbols[len(region.computing)])
    return None


def _stray_claim(subject: Subject, region: Region) -> str:
    """The first op that the plan claims and the body does not have at that place, or empty."""
    if region.claim is None:
        return ""
    if len(region.claim.ops) != len(region.computing):
        return f"the plan lists {count(len(region.claim.ops), 'op')}; the body has {len(region.computing)}"
    before = subject.before.ops
    for index, op in zip(region.claim.ops, region.computing, strict=True):
        if not 0 <= index < len(before) or before[index].outputs != op.outputs:
            return f"the plan lists op {index}; the body has `{op.name}` at that place"
    return ""


def _executed(subject: Subject, region: Region) -> Iterator[Finding]:
    executed = region.text
    if executed is None:
        return
    found = mismatch(executed, region.ops)
    if found is None:
        return
    op, statement = found
    yield Finding(
        f"region `{region.name}` executes other code than its body says",
        subject.at(region.op) if op is None else subject.inside(region, op),
        (Note(f"the executed code says: {statement}"),),
        "generate the code from the body, and execute exactly that",
    )


def _say(op: Op) -> str:
    return f"{', '.join(op.outputs)} = {op.name}({', '.join(op.reads)})"


def _shape(op: Op) -> Hashable:
    return (symbol_key(op), op.outputs, _names(op.bsym.args), _names(op.bsym.kwargs))


def _names(tree: object) -> Hashable:
    if isinstance(tree, Proxy):
        return ("name", tree.name)
    if isinstance(tree, dict):
        return tuple((key, _names(item)) for key, item in tree.items())
    if isinstance(tree, (tuple, list)):
        return tuple(_names(item) for item in tree)
    if isinstance(tree, slice):
        return ("slice", _names((tree.start, tree.stop, tree.step)))
    return literal_key(tree)
