"""Equivalence: the trace after computes the same values, by the same ops, as often."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.diagnostics import Location, Note, count
from cgverify.verifier.divergence import Cause, Divergence
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.subject import Subject
from cgverify.verifier.values import Step


def _told(subject: Subject, *causes: Cause) -> Iterator[Divergence]:
    for divergence in subject.divergences:
        if divergence.cause in causes:
            yield divergence


def sides(subject: Subject, divergence: Divergence) -> tuple[Note, ...]:
    """Notes with the side before of a divergence, and how much hangs on it."""
    notes = []
    if divergence.before is not None:
        notes.append(Note("before the transform", subject.step_was(divergence.before)))
    if divergence.dependents:
        differ = "differs" if divergence.dependents == 1 else "differ"
        notes.append(Note(f"{count(divergence.dependents, 'later op')} {differ} only because of this one"))
    return tuple(notes)


def called(step: Step) -> str:
    """The op's results and name, as a message names it: `t0 = add(...)`."""
    results = f"{', '.join(step.op.outputs)} = " if step.op.outputs else ""
    return f"`{results}{step.op.name}(...)`"


@rule("CG501", "wrong-output-value")
def wrong_output_value(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Every op of the trace after calls the same symbol, with the same constants and the same values, as the op of
        the trace before that defines the same name; and RETURN hands out the same values, sharing memory alike. The
        number that `item` read and the 0-d tensor it was read from are one value to `add`, `sub`, `mul` and comparisons
        of tensors of its dtype, where both give the same bits, as long as nobody writes the tensor in between.

    Why it is wrong
        The function returns, or goes on with, other values than the original.

    Example
        t0 = torch.sub(y, x)         # was: t0 = torch.sub(x, y)

    Instead
        Copy ops unchanged, and bind a region's arguments and results in the order of its body.

    Not covered
        Algebra: two different computations of one value are different here.
    """
    for divergence in _told(subject, Cause.SYMBOL, Cause.LITERALS, Cause.OPERANDS):
        step, was = divergence.after, divergence.before
        if step is None or was is None:
            continue
        yield Finding(
            f"{called(step)} {_difference(divergence.cause, was, step)} before the transform",
            subject.step(step),
            (*_exchanged(divergence), *sides(subject, divergence)),
            "keep the op as it was",
        )
    for divergence in _told(subject, Cause.RETURNED, Cause.ALIASED):
        yield _returned(subject, divergence)


def _difference(cause: Cause, was: Step, now: Step) -> str:
    if cause is Cause.SYMBOL:
        return "was another op"
    if cause is Cause.OPERANDS:
        return "is given other values than"
    counts = len(was.operands), len(now.operands)
    return "has other constants than" if counts[0] == counts[1] else "has another number of arguments than"


def _exchanged(divergence: Divergence) -> tuple[Note, ...]:
    """Which argument holds another value."""
    if divergence.cause is not Cause.OPERANDS or divergence.before is None or divergence.after is None:
        return ()
    pairs = zip(divergence.before.operands, divergence.after.operands, strict=False)
    for position, (was, now) in enumerate(pairs):
        if was.number != now.number:
            if was.name == now.name:
                return (Note(f"argument {position}, `{now.name}`, is another value than before the transform"),)
            return (Note(f"argument {position} is `{now.name}`; before the transform it was `{was.name}`"),)
    return ()


def _returned(subject: Subject, divergence: Divergence) -> Finding:
    before, after = subject.executions
    position = divergence.leaf or 0
    was, now = before.returned[position], after.returned[position]
    op = subject.after.return_op
    where: Location = subject.whole() if op is None else subject.at(op)
    returned = f"returned value {position}"
    if divergence.cause is Cause.ALIASED:
        message = f"{returned}, `{now.name}`, shares memory with other values than before the transform"
    elif was.number == now.number:
        message = f"{returned}, `{now.name}`, has seen other writes than before the transform"
    elif was.name == now.name:
        message = f"{returned}, `{now.name}`, is another value than before the transform"
    else:
        message = f"{returned} is `{now.name}`; before the transform it was `{was.name}`"
    help = "return the same values, and bind a region's results in the order in which its body returns them"
    return Finding(message, where, help=help)


@rule("CG502", "missing-op")
def missing_op(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Every op of the trace before runs in the trace after, inside a region or outside, before RETURN.

    Why it is wrong
        Its result is missing or stale, its effect does not happen, its random draw shifts all later ones.

    Example
        t0 = torch.mul(x, y)         # gone in the trace after

    Instead
        Put each op either in exactly one region or outside.

    Not covered
        Ops whose lack is only a consequence of another difference are counted in that finding. A lost write to
        the caller's memory is CG401.
    """
    for divergence in _told(subject, Cause.MISSING):
        if divergence.writes_callers_memory or divergence.before is None:
            continue
        yield Finding(
            f"{called(divergence.before)} is gone: it never runs",
            subject.whole(),
            sides(subject, divergence),
            "keep the op, either inside exactly one region or outside all",
        )


@rule("CG503", "duplicated-op")
def duplicated_op(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No op of the trace after runs more often than in the trace before, and none runs that the trace before does
        not have.

    Why it is wrong
        A repeated write or random draw changes results; a repeated pure op costs time.

    Example
        [t0] = CUDAGraph0(x)
          # t0 = torch.exp(x)
        t1 = torch.exp(x)            # one exp before

    Instead
        Remove the ops of a region from the trace outside.

    Not covered
        Whether the extra op is harmless.
    """
    for divergence in _told(subject, Cause.REPEATED, Cause.EXTRA):
        step = divergence.after
        if step is None:
            continue
        repeated = divergence.cause is Cause.REPEATED
        more = "runs more often than before the transform" if repeated else "did not run before the transform"
        yield Finding(f"{called(step)} {more}", subject.step(step), help="remove the extra op")


@rule("CG504", "unproved")
def unproved(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        The two executions end in the same state: returned values, the caller's memory, random generators, order of
        opaque ops. It speaks only where they do not and no other rule says why.

    Why it is wrong
        Nothing shows that the trace still does what it did before the transform, so it must not run.

    Example
        Two opaque ops that changed places together with a random draw.

    Instead
        Keep the order of ops with effects. If the rewrite is right, the proof is too weak: that is a fault of the
        verifier, worth reporting with both traces.

    Not covered
        Nothing: this is the rule of last resort.
    """
    for divergence in _told(subject, Cause.STATE):
        yield Finding(
            f"`{subject.after.name}` is not proved: {divergence.detail} differ from before the transform",
            subject.whole(),
            help="keep the order of ops that write, draw random numbers or are unknown; if the rewrite is right, "
            "please report both traces",
        )
