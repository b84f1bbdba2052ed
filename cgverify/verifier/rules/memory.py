"""Memory: who owns what a region returns, as far as traces and contract decide it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cgverify.diagnostics import Note, Severity
from cgverify.ir import OpKind, TraceView
from cgverify.plan import InputRole, OutputRole
from cgverify.verifier.pairing import saved_groups
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.semantics import TensorProxy, is_static
from cgverify.verifier.staleness import find_overwritten
from cgverify.verifier.state import State, Value
from cgverify.verifier.subject import Region, Subject


@rule("CG301", "unstable-input-address", Severity.WARNING)
def unstable_input_address(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Under a contract whose runtime does not compare addresses before a replay: no input of a captured region is
        read in place on a promise alone. A promise that the trace shows (a parameter or buffer of the module) gives a
        warning; none at all gives an error.

    Why it is wrong
        A graph reads the address of its capture. After `module.weight.data = ...` or `load_state_dict(assign=True)`
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
                yield Finding(
                    f"`{region.name}` reads `{name}` in place, and nothing compares its address before a replay",
                    subject.at(region.op),
                    (Note("it is marked as static" if promised else "nothing marks it as static"),),
                    "guard the address before each replay",
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
        That op allocates its result anew on each call. The memory that the graph reads is freed, and belongs to
        somebody else at the next replay.

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
                    f"`{region.name}` reads `{name}` in place, which is allocated anew on each call",
                    subject.at(region.op),
                    (Note("made here, outside the graphs", subject.at(makers[name])),),
                    f"copy `{name}` into a static buffer before each replay",
                )


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
                    "hand out a copy",
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
                f"`{name}` may share memory with input `{parameters[0]}` of `{region.name}`, as a view of a copy",
                subject.at(region.op),
                (Note("the plan calls it fresh" if region.claim else "the runtime keeps no views of inputs"),),
                "mark the output as a possible alias of an input",
            )


@rule("CG304", "aliased-inputs-copied-apart")
def aliased_inputs_copied_apart(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Under a contract whose runtime does not look for overlapping arguments: no two inputs of a captured region
        that the trace says may share memory (`update_aliases` takes them together) are copied into buffers of their
        own while the region writes one of them.

    Why it is wrong
        The write reaches one buffer; reads of the other see the old contents.

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
                f"`{written}`, which `{region.name}` writes, is copied apart from {others}",
                subject.at(region.op),
                (
                    Note("the trace says that they may share memory", subject.inside(region, op)),
                    Note(f"`{writes[written].name}` writes `{written}`", subject.inside(region, writes[written])),
                ),
                "run the region un-graphed when its arguments overlap",
            )


@rule("CG305", "pool-replay-order")
def pool_replay_order(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Under a contract whose graphs share a memory pool and hand out the pool's own memory: no result of a captured
        region is saved for the backward trace.

    Why it is wrong
        Memory in a pool may be used again by graphs that are captured later, if replays keep the order of the
        captures. Two forward calls before the first backward break that order: the saved tensor is overwritten.

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
                    f"`{name}` is saved for the backward trace in a pool that `{region.name}` shares",
                    subject.at(region.op),
                    _return_note(subject),
                    "hand out a copy, or give each graph a pool of its own",
                )


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
    return () if op is None else (Note("handed out here", subject.at(op)),)


@rule("CG307", "saved-value-overwritten")
def saved_value_overwritten(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        No value that a forward trace saves for its backward trace is written between the op that made it and RETURN.

    Why it is wrong
        The backward trace reads the memory later: its gradients are those of other values, without an error. Eager
        PyTorch refuses such a backward ("modified by an inplace operation").

    Example
        t0 = torch.mul(x, y)         # its backward needs y
        t2 = copy_(t1, y)
        return {...}, ((y,), ())

    Instead
        Save a copy, or move the write behind the backward.

    Not covered
        Two parameters that share memory. Where the trace before does the same, it is a warning: the fault is older.
    """
    before, after = subject.executions
    older = find_overwritten(before, _saved(subject.before, before))
    op = subject.after.return_op
    for name, step in find_overwritten(after, _saved(subject.after, after)).items():
        yield Finding(
            f"`{name}` is saved for the backward trace, and overwritten before that reads it",
            subject.whole() if op is None else subject.at(op),
            (Note("overwritten here", subject.step(step)),),
            "save a copy",
            Severity.WARNING if name in older else None,
        )


def _saved(view: TraceView, state: State) -> list[tuple[str, Value]]:
    """What a forward trace saves, with what each name holds at the end."""
    names = dict.fromkeys(name for group in saved_groups(view) for name in group)
    return [(name, state.values[name]) for name in names if name in state.values]
