"""Names: each is defined before it is used, once, and deleted once, after its last use."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.diagnostics import Note
from cgverify.verifier.names import Fault, NameFault
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.subject import Program, Subject


def _faults(subject: Subject, kind: Fault) -> Iterator[tuple[Program, NameFault]]:
    for program in subject.programs:
        for fault in program.faults:
            if fault.kind is kind:
                yield program, fault


@rule("CG101", "undefined-proxy")
def undefined_proxy(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Every name that an op, DEL or RETURN uses was defined by a parameter or an earlier op, in the trace and in
        each region's body.

    Why it is wrong
        The generated Python raises NameError or UnboundLocalError, or reads a global of the same name.

    Example
        def computation(x):
          t1 = torch.mul(t0, 2.0)    # nothing defines t0
          return (t1,)

    Instead
        Make every value that a region's outside uses an output of the region, and keep each op after its producers.

    Not covered
        Names of globals: CG107 looks those up.
    """
    for program, fault in _faults(subject, Fault.UNDEFINED):
        yield Finding(
            f"`{fault.name}` is used in `{program.name}`, but nothing defines it before",
            program.at(fault.op),
            help="define it earlier; if a region computes it, make it one of the region's results",
        )


@rule("CG102", "use-after-del")
def use_after_del(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No op and no RETURN uses a name after a DEL of it, in the trace and in each region's body.

    Why it is wrong
        The generated Python raises UnboundLocalError. Grouping a DEL into a region with the producer of its value is
        how lightning-thunder issue 728 arose.

    Example
        t0 = torch.sum(x)
        del t0
        return (t0,)

    Instead
        Drop all DELs of the trace that is rewritten and place them afresh, after the last use, in the new order.

    Not covered
        Values that could be deleted earlier: that costs memory, not correctness.
    """
    for program, fault in _faults(subject, Fault.DELETED):
        yield Finding(
            f"`{fault.name}` is used after it was deleted in `{program.name}`",
            program.at(fault.op),
            _earlier(program, "it is deleted here", fault),
            "put the `del` after the last use",
        )


@rule("CG105", "double-del")
def double_del(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No name is deleted twice, in the trace and in each region's body.

    Why it is wrong
        The second `del` raises UnboundLocalError.

    Example
        del t0
        del t0

    Instead
        Place DELs afresh instead of merging those of two traces.

    Not covered
        Nothing that is known.
    """
    for program, fault in _faults(subject, Fault.DELETED_TWICE):
        yield Finding(
            f"`{fault.name}` is deleted twice in `{program.name}`",
            program.at(fault.op),
            _earlier(program, "it is first deleted here", fault),
            "remove one of the two `del`",
        )


@rule("CG106", "duplicate-definition")
def duplicate_definition(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No name is defined twice, by parameters or ops, in the trace and in each region's body. An op that returns
        its own argument defines nothing.

    Why it is wrong
        Whoever reads the first value later gets the second. A trace is in single assignment form: passes identify
        values by name.

    Example
        t0 = torch.add(x, y)
        t0 = torch.mul(x, y)

    Instead
        Give each new value a fresh name of the trace.

    Not covered
        Nothing that is known.
    """
    for program, fault in _faults(subject, Fault.REDEFINED):
        yield Finding(
            f"`{fault.name}` is defined twice in `{program.name}`",
            program.at(fault.op),
            _earlier(program, "it is first defined here", fault),
            "give one of the two a fresh name",
        )


def _earlier(program: Program, message: str, fault: NameFault) -> tuple[Note, ...]:
    return () if fault.earlier is None else (Note(message, program.at(fault.earlier)),)
