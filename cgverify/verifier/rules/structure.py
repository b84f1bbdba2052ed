"""Structure: names, deletions, signatures, texts. What must hold before values can be compared at all."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from cgverify.diagnostics import Location, Note, Severity
from cgverify.ir import Op, OpKind
from cgverify.verifier.names import Fault, NameFault
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.semantics import Proxy, metadata_of
from cgverify.verifier.state import literal_key, symbol_key
from cgverify.verifier.statements import mismatch
from cgverify.verifier.subject import Program, Region, Subject


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
            f"`{fault.name}` is used in `{program.name}` but nothing defines it",
            program.at(fault.op),
            help="define it earlier: if a region computes it, make it one of the region's outputs",
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
            _earlier(program, "deleted here", fault),
            "place the DEL after the last use",
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
            _earlier(program, "deleted first here", fault),
            "remove one of the two DELs",
        )


@rule("CG106", "duplicate-definition")
def duplicate_definition(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No name is defined twice, by parameters or ops, in the trace and in each region's body. An op that returns
        its own argument defines nothing.

    Why it is wrong
        A trace is in single assignment form: passes identify values by name, and the second definition replaces the
        value that later readers of the first one get.

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
            _earlier(program, "defined first here", fault),
            "give one of the two a fresh name",
        )


def _earlier(program: Program, message: str, fault: NameFault) -> tuple[Note, ...]:
    return () if fault.earlier is None else (Note(message, program.at(fault.earlier)),)


@rule("CG103", "region-signature-mismatch")
def region_signature_mismatch(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        A region is called with as many arguments as its body has parameters and binds as many results as it returns;
        a region without a body defines each output by its subsymbols and uses only its arguments. Where the region
        carries a plan, the names and their order agree with the plan, on the call, in the body and in its text.

    Why it is wrong
        Arguments are passed by position: a shifted list computes with the wrong tensors, silently if the shapes fit.

    Example
        [t2] = CUDAGraph0(y, x)      # the body is CUDAGraph0(x, y)

    Instead
        Build call, body and plan from one list of inputs and one list of outputs.

    Not covered
        Whether an input is needed: an unused input costs a copy.
    """
    for region in subject.regions:
        for what, notes in _signature_faults(region):
            yield Finding(
                f"region `{region.name}` {what}",
                subject.at(region.op),
                tuple(Note(note) for note in notes),
                "build the call, the body and the plan from the same lists",
            )


def _signature_faults(region: Region) -> Iterator[tuple[str, tuple[str, ...]]]:
    if region.called is None:
        yield "has no callable: its call context does not name it", ()
    if not isinstance(region.op.bsym.output, (list, tuple)):
        yield "does not bind a list of results", ()
    if region.body is None:
        yield from _closure_faults(region)
        return
    sides = {"the call": region.arguments, "the body": region.parameters}
    results = {"the call": region.outputs, "the body": region.results}
    if region.text is not None and region.text.function is not None:
        sides["the executed text"] = region.text.parameters
    if region.claim is not None:
        sides["the plan"] = tuple(entry.name for entry in region.claim.inputs)
        results["the plan"] = tuple(entry.name for entry in region.claim.outputs)
    for what, lists in (("arguments", sides), ("results", results)):
        if len({len(names) for names in lists.values()}) > 1:
            yield f"has different numbers of {what} on its sides", _listed(lists)
        elif region.claim is not None and len(set(lists.values())) > 1:
            yield f"has other {what} on one side than on another", _listed(lists)


def _listed(lists: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(f"{side}: {', '.join(names) or 'none'}" for side, names in lists.items())


def _closure_faults(region: Region) -> Iterator[tuple[str, tuple[str, ...]]]:
    defined = set(region.arguments)
    for op in region.computing:
        missing = [name for name in op.reads if name not in defined]
        if missing:
            yield f"uses `{missing[0]}`, which is no argument of it", (f"in {op.name}",)
        defined.update(missing)
        defined.update(op.outputs)
    for name in region.outputs:
        if name not in defined:
            yield f"returns `{name}`, which none of its subsymbols computes", ()


@rule("CG104", "region-body-mismatch")
def region_body_mismatch(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        What a region executes is what it prints: the text that its callable executes (`.source`) says, statement by
        statement, what the bound symbols of its body (`.body`) say, and those are its subsymbols, in order, and the
        ops of the trace before that its plan lists.

    Why it is wrong
        The subsymbols print as comments only. A proof about them says nothing about a callable that runs other ops.

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
                f"region `{region.name}` does not say what it executes: it was judged by its subsymbols",
                subject.at(region.op),
                severity=Severity.NOTE,
            )
            continue
        found = _claimed(region)
        if found is not None:
            op, printed = found
            yield Finding(
                f"the body of region `{region.name}` is not what its subsymbols say",
                subject.at(region.op) if op is None else subject.inside(region, op),
                (Note(f"the subsymbols say: {printed}"),),
                "make the subsymbols and the body from the same ops",
            )
        stray = _stray_claim(subject, region)
        if stray:
            yield Finding(
                f"the plan of region `{region.name}` names other ops of the trace before than its body has",
                subject.at(region.op),
                (Note(stray),),
                "keep the plan and the body in step",
            )
        if region.text is None:
            yield Finding(
                f"region `{region.name}` has a body but does not say what text it executes",
                subject.at(region.op),
                help="let the callable keep the text as `.source`",
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
        return f"the plan lists {len(region.claim.ops)} ops, the body has {len(region.computing)}"
    before = subject.before.ops
    for index, op in zip(region.claim.ops, region.computing, strict=True):
        if not 0 <= index < len(before) or before[index].outputs != op.outputs:
            return f"the plan lists op {index}, the body has `{op.name}` at that place"
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
        f"region `{region.name}` executes another text than its body says",
        subject.at(region.op) if op is None else subject.inside(region, op),
        (Note(f"the executed text says: {statement}"),),
        "make the text from the body and execute exactly that",
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


@rule("CG107", "text-does-not-compile")
def text_does_not_compile(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        The text of the trace, and the text that each region's callable executes, parse, compile, define the function,
        and find every global they use.

    Why it is wrong
        Thunder executes the text: it raises SyntaxError when it is compiled or NameError when it runs.

    Example
        [t1] = CUDAGraph0(x)         # and the symbol's call context does not hold CUDAGraph0

    Instead
        Use names that are Python identifiers, and give each symbol of your own a call context with its callable.

    Not covered
        Whether the globals are the right objects: CG109 looks for two objects under one name.
    """
    for program in subject.programs:
        text = program.text
        if text is None:
            continue
        if text.function is None:
            lines = text.source.splitlines()
            line = lines[text.line - 1].strip() if 0 < text.line <= len(lines) else ""
            yield Finding(
                f"the text of `{program.name}` does not compile: {text.fault}",
                program.whole,
                (Note(f"line {text.line}: {line}"),) if line else (),
                "print the text with Thunder, and use names that are Python identifiers",
            )
            continue
        undefined = {fault.name for fault in program.faults if fault.kind is Fault.UNDEFINED}
        for name in text.unresolved():
            if name in undefined or program.provides(name):
                continue  # CG101 tells of the undefined ones
            op = program.op_naming(name)
            yield Finding(
                f"the text of `{program.name}` uses `{name}`, which nothing defines",
                program.whole if op is None else program.at(op),
                help="give the symbol a call context that holds it",
            )


@rule("CG109", "shadowed-global")
def shadowed_global(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No parameter and no value has the name of a global that the text calls, and no two ops bring different objects
        under one name.

    Why it is wrong
        The text has nothing but names. A parameter called `torch` makes `torch.add(...)` look up `add` on a tensor,
        and of two callables registered under one name the later one serves both calls.

    Example
        def computation(torch):
          t0 = torch.add(torch, 1)

    Instead
        Rename the value, and number regions from the first name that the trace does not use.

    Not covered
        Globals that the text imports and something else rebinds at run time.
    """
    for program in subject.programs:
        if program.text is not None:
            for name in program.text.shadowed():
                op = program.op_defining(name)
                yield Finding(
                    f"the value `{name}` of `{program.name}` hides the global `{name}` that its text calls",
                    program.whole if op is None else program.at(op),
                    help="rename the value",
                )
        yield from _clobbered(program)


def _clobbered(program: Program) -> Iterator[Finding]:
    first: dict[str, tuple[object, Op]] = {}
    for op in program.ops:
        for name, called in (op.bsym._call_ctx or {}).items():
            known, owner = first.setdefault(name, (called, op))
            if known is not called:
                yield Finding(
                    f"two ops of `{program.name}` call different objects by the name `{name}`",
                    program.at(op),
                    (Note("the other one", program.at(owner)),),
                    "give each callable a name of its own",
                )


@rule("CG108", "changed-signature-or-metadata")
def changed_signature_or_metadata(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        The trace after has the same parameters, in order, exactly one RETURN, the same structure and constants in it,
        and the same shape, dtype, device and requires_grad for each value that both traces name.

    Why it is wrong
        Thunder calls the function by position and takes its result apart by structure. Wrong metadata misleads every
        later pass, and autograd.

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
            f"`{after.name}` takes other parameters than before",
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
            f"`{name}` has other metadata than before",
            subject.whole() if op is None else subject.at(op),
            (Note(f"before: {_described(was)}"), Note(f"after: {_described(now)}")),
            "reuse the proxies of the trace before",
        )


def _return_faults(subject: Subject) -> Iterator[Finding]:
    returns = [op for op in subject.after.ops if op.kind is OpKind.RETURN]
    if len(returns) != 1:
        where: Location = subject.at(returns[-1]) if returns else subject.whole()
        yield Finding(f"`{subject.after.name}` has {len(returns)} RETURN ops", where, help="return once, at the end")
    was, now = subject.executions
    if returns and was.structure != now.structure:
        previous = subject.before.return_op
        yield Finding(
            f"`{subject.after.name}` returns another structure than before",
            subject.at(returns[0]),
            () if previous is None else (Note("before", subject.was(previous)),),
            "keep RETURN as it is",
        )


def _described(proxy: Proxy) -> str:
    kind, *facts = metadata_of(proxy)
    if kind != "tensor":
        return str(kind)
    shape, dtype, device, requires_grad = facts
    return f"{shape} {dtype} on {device}, requires_grad={requires_grad}"
