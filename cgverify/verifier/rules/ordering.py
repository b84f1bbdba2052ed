"""Ordering: writes and random draws happen, once each, in order, and reach whom they concern."""

from __future__ import annotations

from collections.abc import Iterator

from cgverify.diagnostics import Note
from cgverify.verifier.divergence import Cause, Divergence
from cgverify.verifier.registry import Finding, rule
from cgverify.verifier.rules.equivalence import called, sides
from cgverify.verifier.semantics import is_static
from cgverify.verifier.subject import Subject
from cgverify.verifier.values import Operand, Step, is_callers_memory


@rule("CG401", "lost-input-write")
def lost_input_write(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Each write to memory that the caller holds happens in the trace after; and if it happens in a captured region,
        the runtime brings it to the caller: the plan marks the input as written, or the contract says so.

    Why it is wrong
        The caller's tensor keeps its old value: a KV cache that never fills, running statistics that never move.

    Example
        [t1] = CUDAGraph0(x)         # x is copied in, and nothing copies it back
          # t1 = copy_(t0, x)

    Instead
        Capture at the caller's address, under a guard, or copy the buffer back after each replay.

    Not covered
        Writes through memory that neither schema nor decomposition declares.
    """
    for divergence in subject.divergences:
        if divergence.cause is Cause.MISSING and divergence.writes_callers_memory and divergence.before is not None:
            yield Finding(
                f"{called(divergence.before)}, which writes the caller's memory, is gone: it never runs",
                subject.whole(),
                sides(subject, divergence),
                "keep every op that writes",
            )
    for region in subject.captured:
        entries = {entry.name: entry for entry in region.claim.inputs} if region.claim is not None else {}
        arguments = dict(zip(region.parameters, region.op.bsym.flat_proxy_args, strict=False))
        for parameter, op in subject.effects(region).writes.items():
            entry = entries.get(parameter)
            if entry is not None and entry.written:
                continue
            reaches = subject.contract.writes_back if entry is None else False
            argument = arguments.get(parameter)
            if reaches or (entry is None and argument is not None and is_static(argument)):
                continue
            name = parameter if argument is None else argument.name
            evidence = "the plan does not mark it as written" if entry else "it is copied in and never copied back"
            yield Finding(
                f"the write to `{name}` in `{region.name}` is lost: it never reaches the caller's tensor",
                subject.at(region.op),
                (Note(f"`{name}`: {evidence}"), Note(f"`{op.name}` writes it", subject.inside(region, op))),
                f"mark `{name}` as written, and copy the graph's memory back to it after each replay",
            )


@rule("CG402", "reordered-effects")
def reordered_effects(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        Each op sees memory and random generators in the state in which the same op of the trace before saw them:
        writes and draws keep their order, and no read moves across a write to memory it may share.

    Why it is wrong
        A read that moved past a write sees the other value; two draws that changed places swap their numbers.

    Example
        t1 = copy_(t0, x)
        t2 = torch.sum(x)            # stood before the copy_

    Instead
        Add an edge from each op with an effect to the next one on the same memory or generator, and to the reads
        between them.

    Not covered
        All parameters on one device count as one memory, since they may share it.
    """
    for divergence in subject.divergences:
        step = divergence.after
        if step is None or divergence.before is None:
            continue
        crossed: tuple[Note, ...] = ()
        if divergence.cause is Cause.MEMORY:
            message = f"{called(step)} sees other writes to `{_moved(divergence)}` than before the transform"
            crossed = _crossed(subject, divergence)
        elif divergence.cause is Cause.DRAW:
            message = f"{called(step)} draws other random numbers: its place among the draws has changed"
        elif divergence.cause is Cause.WORLD:
            message = f"{called(step)} has changed its place among ops of unknown effect"
        else:
            continue
        notes = (*sides(subject, divergence), *crossed)
        help = "keep the order of ops that write, draw random numbers or are unknown"
        yield Finding(message, subject.step(step), notes, help)


def _moved(divergence: Divergence) -> str:
    """The name of the argument whose memory is in another state."""
    return next((now.name for was, now in _pairs(divergence) if was.versions != now.versions), "")


def _crossed(subject: Subject, divergence: Divergence) -> tuple[Note, ...]:
    """The writes that the op saw on one side only."""
    before, after = subject.executions
    notes: dict[Note, None] = {}
    for was, now in _pairs(divergence):
        lost = [before.writers[v] for v in set(was.versions) - set(now.versions) if v in before.writers]
        won = [after.writers[v] for v in set(now.versions) - set(was.versions) if v in after.writers]
        notes.update((Note("it ran after this write, and no longer does", subject.step_was(s)), None) for s in lost)
        notes.update((Note("it now runs after this write", subject.step(s)), None) for s in won)
        if any(_only_shares(step, now) for step in (*lost, *won)):
            notes[_ONE_MEMORY] = None
    return tuple(notes)


_ONE_MEMORY = Note("tensors that the caller gave on one device count as one memory: they may share it")


def _only_shares(step: Step, operand: Operand) -> bool:
    """Whether the step writes the caller's memory, but not by way of this very value."""
    callers = any(is_callers_memory(root) for root in step.writes)
    return callers and operand.number not in {other.number for other in step.operands}


def _pairs(divergence: Divergence) -> list[tuple[Operand, Operand]]:
    if divergence.before is None or divergence.after is None:
        return []
    return list(zip(divergence.before.operands, divergence.after.operands, strict=False))


@rule("CG403", "effect-repeated-by-warm-up")
def effect_repeated_by_warm_up(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        A region that writes an input in place is not run extra times by a runtime whose warm-up runs leave their
        effects (by the contract).

    Why it is wrong
        A buffer that should grow by 1 per call grows by 4 on the first one.

    Example
        [t1] = CUDAGraph0(count)     # count is a registered buffer, so it is written where it stands
          # t1 = copy_(t0, count)

    Instead
        Let the first ordinary call be the warm-up, or restore what it wrote.

    Not covered
        Writes to copied inputs, which warm-up runs do not reach: those are lost altogether, CG401.
    """
    if not subject.contract.warm_up_runs:
        return
    for region in subject.captured:
        arguments = dict(zip(region.parameters, region.op.bsym.flat_proxy_args, strict=False))
        for parameter, op in subject.effects(region).writes.items():
            argument = arguments.get(parameter)
            if argument is None or not (is_static(argument) or subject.contract.writes_back):
                continue
            runs = subject.contract.warm_up_runs
            yield Finding(
                f"the write to `{argument.name}` in `{region.name}` is repeated by {runs} warm-up runs",
                subject.at(region.op),
                (Note(f"`{op.name}` writes it", subject.inside(region, op)),),
                "let the first ordinary call be the warm-up, and run nothing else before the capture",
            )


@rule("CG404", "rng-advanced-by-warm-up")
def rng_advanced_by_warm_up(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        A region that draws random numbers is not run extra times by a runtime whose warm-up runs leave the generator
        advanced (by the contract).

    Why it is wrong
        From the same seed, the first call and everything after it get other numbers than without graphs.

    Example
        [t0] = CUDAGraph0(x)
          # t0 = torch.nn.functional.dropout(x, 0.5, True)

    Instead
        Let the first ordinary call be the warm-up, or restore the generator.

    Not covered
        Generators other than the device's default one.
    """
    if not subject.contract.warm_up_runs:
        return
    for region in subject.captured:
        op = subject.effects(region).draws
        if op is not None:
            runs = subject.contract.warm_up_runs
            yield Finding(
                f"the random draws of `{region.name}` are repeated by {runs} warm-up runs",
                subject.at(region.op),
                (Note(f"`{op.name}` draws", subject.inside(region, op)),),
                "let the first ordinary call be the warm-up, and run nothing else before the capture",
            )


@rule("CG405", "unregistered-rng-in-graph")
def unregistered_rng_in_graph(subject: Subject) -> Iterator[Finding]:
    """
    What it checks
        A region that draws random numbers says so: its plan is marked random, or the contract registers generators
        with every graph.

    Why it is wrong
        A graph captured without its generator replays the same numbers for ever.

    Example
        [t0] = CUDAGraph0(x)         # plan: random=False
          # t0 = uniform((4,), 0.0, 1.0, device=..., dtype=...)

    Instead
        Derive the mark from the ops of the region.

    Not covered
        Generators that are passed to an op.
    """
    for region in subject.captured:
        op = subject.effects(region).draws
        registered = region.claim.random if region.claim is not None else subject.contract.registers_rng
        if op is not None and not registered:
            silent = "its plan does not say so" if region.claim is not None else "registers no generator"
            yield Finding(
                f"`{region.name}` draws random numbers, and {silent}",
                subject.at(region.op),
                (Note(f"`{op.name}` draws", subject.inside(region, op)),),
                "mark the region as random in its plan, or register the generator with every graph",
            )
