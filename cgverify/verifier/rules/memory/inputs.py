"""Inputs of graphs: what a graph reads in place stays in place, and is one memory where it was one."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.diagnostics import Note, Severity
from cgverify.ir import OpKind
from cgverify.plan import InputRole
from cgverify.verifier.region import Region
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.semantics import is_static
from cgverify.verifier.subject import Subject


@rule("CG301", "unstable-input-address", Severity.WARNING)
def unstable_input_address(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Under a contract whose runtime does not compare addresses before a replay: no input of a captured region is
        read in place on a promise alone. A promise that the trace shows (a parameter or buffer of the module) gives a
        warning; none at all gives an error.

    Why it is wrong
        A graph reads the address of its capture: after `module.weight.data = ...` or `load_state_dict(assign=True)`
        replays go on with the old values, or with whatever is stored there now.

    Example
        [t0] = CUDAGraph0(x, t_w)    # t_w is marked as static

    Instead
        Compare the address before each replay, and copy or capture again if it moved.

    Not covered
        Whether anybody moves it. Values that the trace makes itself: CG306.
    """
    if subject.contract.guards_addresses:
        return
    made = {name for op in subject.after.ops if op.kind is OpKind.COMPUTE for name in op.outputs}
    for region in subject.captured:
        for name, promised in _static_inputs(region).items():
            if name not in made and name in subject.after.parameters:
                says = "promises" if promised else "does not promise"
                yield Finding(
                    f"`{region.name}` reads `{name}` at a fixed address, which nothing compares before a replay",
                    subject.at(region.op),
                    (Note(f"the trace {says} that `{name}` stays at its address"),),
                    "compare the address before each replay, and copy the value or capture again if it changed",
                    None if promised else Severity.ERROR,
                )


def _static_inputs(region: Region) -> dict[str, bool]:
    """Inputs that are read in place -> whether the trace marks them as static."""
    marked = {proxy.name: is_static(proxy) for proxy in region.op.bsym.flat_proxy_args}
    if region.claim is None:
        return {name: True for name, promised in marked.items() if promised}
    entries = zip(region.arguments, region.claim.inputs, strict=False)
    return {name: marked[name] for name, entry in entries if entry.role is InputRole.STATIC}


@rule("CG306", "freed-input-replayed")
def freed_input_replayed(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Under a contract whose runtime does not compare addresses before a replay: no input that a captured region
        reads in place is made by an op of the same trace outside the graphs.

    Why it is wrong
        The memory that the graph reads is freed after the call, and belongs to somebody else at the next replay.

    Example
        t0 = my_op(x)                # runs between the graphs
        [t1] = CUDAGraph0(t0)        # t0 is taken as static

    Instead
        Copy the value into a static buffer before each replay.

    Not covered
        Ops that hand out the same memory each time.
    """
    if subject.contract.guards_addresses:
        return
    graphed = {id(region.op) for region in subject.captured}
    makers = {
        name: op
        for op in subject.after.ops
        if op.kind is OpKind.COMPUTE and id(op) not in graphed
        for name in op.defines
        if subject.facts(op).worst_case or not subject.facts(op).views.get(name)
    }
    for region in subject.captured:
        for name in _static_inputs(region):
            if name in makers:
                yield Finding(
                    f"`{region.name}` reads `{name}` at a fixed address, but each call allocates it anew",
                    subject.at(region.op),
                    (Note("it is made here, outside the graphs", subject.at(makers[name])),),
                    f"copy `{name}` into memory of the graph before each replay",
                )


@rule("CG304", "aliased-inputs-copied-apart")
def aliased_inputs_copied_apart(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Under a contract whose runtime does not look for overlapping arguments: no two inputs of a captured region
        that the trace says may share memory (`update_aliases` takes them together) are copied into buffers of their
        own while the region writes one of them.

    Why it is wrong
        If they do share memory, the write reaches one copy, and reads of the other see the old contents.

    Example
        [t1] = CUDAGraph0(x, y)
          # (t2, t3) = update_aliases((x, y))
          # t4 = copy_(t5, t2)
          # t1 = torch.mul(t3, 2)

    Instead
        Run the region un-graphed when arguments overlap and one is written.

    Not covered
        Arguments that overlap without the trace saying so: Thunder says it for the arguments it was compiled with.
    """
    if subject.contract.guards_overlap:
        return
    for region in subject.captured:
        copied = set(region.parameters) - set(_static_inputs(region))
        writes = subject.effects(region).writes
        for op in region.computing:
            together = [name for name in dict.fromkeys(op.reads) if name in copied]
            written = next((name for name in together if name in writes), None)
            if len(together) < 2 or written is None or len(subject.facts(op).identities) < 2:
                continue
            others = ", ".join(f"`{name}`" for name in together if name != written)
            yield Finding(
                f"`{region.name}` writes a copy of `{written}` but has another copy of {others}",
                subject.at(region.op),
                (
                    Note("the trace says that these arguments may share memory", subject.inside(region, op)),
                    Note(f"`{writes[written].name}` writes `{written}`", subject.inside(region, writes[written])),
                ),
                "run the ops without the graph when these arguments share memory",
            )
