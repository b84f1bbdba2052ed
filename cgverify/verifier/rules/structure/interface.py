"""The interface of the trace: parameters, RETURN, and the metadata of values."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.diagnostics import Location, Note
from cgverify.ir import OpKind
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.semantics import Proxy, metadata_of
from cgverify.verifier.subject import Subject


@rule("CG108", "changed-signature-or-metadata")
def changed_signature_or_metadata(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        The trace after has the same parameters, in order, exactly one RETURN, the same structure and constants in it,
        and the same shape, dtype, device and requires_grad for each value that both traces name.

    Why it is wrong
        The caller goes by place, and by what the trace says of each value: a change computes with the wrong ones, or
        misleads later passes and autograd.

    Example
        return (t0,)                 # was: return (t0, t1)

    Instead
        Hand RETURN and parameters through unchanged, and reuse the proxies of the trace before.

    Not covered
        Strides, which no proxy records.
    """
    before, after = subject.before, subject.after
    if before.parameters != after.parameters:
        yield Finding(
            f"`{after.name}` takes other parameters than before the transform",
            subject.whole(),
            (Note(f"before: {', '.join(before.parameters)}"), Note(f"after: {', '.join(after.parameters)}")),
            "keep the parameters and their order",
        )
    yield from _return_faults(subject)
    names = [name for name in after.definitions if name in before.definitions]
    for name in names:
        was, now = before.values.get(name), after.values.get(name)
        if was is None or now is None or was is now or metadata_of(was) == metadata_of(now):
            continue
        op = subject.outer.op_defining(name)
        yield Finding(
            f"`{name}` has another shape, dtype, device or requires_grad than before the transform",
            subject.whole() if op is None else subject.at(op),
            (Note(f"before: {_described(was)}"), Note(f"after: {_described(now)}")),
            "reuse the value (Thunder's proxy) of the trace before the transform",
        )


def _return_faults(subject: Subject) -> Iterator[Finding]:
    returns = [op for op in subject.after.ops if op.kind is OpKind.RETURN]
    if len(returns) != 1:
        where: Location = subject.at(returns[-1]) if returns else subject.whole()
        count = f"{len(returns)} return statements" if returns else "no return statement"
        yield Finding(f"`{subject.after.name}` has {count}", where, help="return once, at the end")
    was, now = subject.executions
    if returns and was.structure != now.structure:
        previous = subject.before.return_op
        yield Finding(
            f"`{subject.after.name}` returns another structure than before the transform",
            subject.at(returns[0]),
            () if previous is None else (Note("before the transform", subject.was(previous)),),
            "keep the return statement as it is",
        )


def _described(proxy: Proxy) -> str:
    kind, *facts = metadata_of(proxy)
    if kind != "tensor":
        return str(kind)
    shape, dtype, device, requires_grad = facts
    return f"{shape} {dtype} on {device}, requires_grad={requires_grad}"
