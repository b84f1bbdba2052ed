"""Executed texts: they compile, and their names are those that the ops mean."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.diagnostics import Note
from cgverify.ir import Op
from cgverify.verifier.names import Fault
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.subject import Program, Subject


@rule("CG107", "text-does-not-compile")
def text_does_not_compile(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        The text of the trace, and the text that each region's callable executes, parse, compile, define the function,
        and find every global they use.

    Why it is wrong
        The generated code raises SyntaxError when Thunder compiles it, or NameError when it runs.

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
                f"the generated code of `{program.name}` does not compile: {text.fault}",
                program.whole,
                (Note(f"line {text.line}: {line}"),) if line else (),
                "let Thunder print the code, and use names that are Python identifiers",
            )
            continue
        undefined = {fault.name for fault in program.faults if fault.kind is Fault.UNDEFINED}
        for name in text.unresolved():
            if name in undefined or program.provides(name):
                continue  # CG101 tells of the undefined ones
            op = program.op_naming(name)
            yield Finding(
                f"the generated code of `{program.name}` uses `{name}`, which nothing defines",
                program.whole if op is None else program.at(op),
                help=f"put `{name}` into the `_call_ctx` of the bound symbol that uses it",
            )


@rule("CG109", "shadowed-global")
def shadowed_global(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No parameter and no value has the name of a global that the text calls, and no two ops bring different objects
        under one name.

    Why it is wrong
        A call reaches whatever has the name: a parameter called `torch` makes `torch.add(...)` look up `add` on a
        tensor, and of two callables registered under one name the later one serves both calls.

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
                    f"the value `{name}` of `{program.name}` hides the global `{name}` that its code calls",
                    program.whole if op is None else program.at(op),
                    help="give the value another name",
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
                    (Note("the other one is called here", program.at(owner)),),
                    "give each callable a name of its own",
                )
