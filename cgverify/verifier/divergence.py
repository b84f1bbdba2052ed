"""Compares two symbolic executions and names where they part: the first op of each disagreement, not its consequences.

Two executions are equal if the same ops ran equally often (equal numbers), the same values are returned from the same
memory, and the caller's memory, the generators and the opaque world end in the same state. Everything else is traced
back: a step without a counterpart is reported only if all that it saw exists in the other execution too; what merely
depends on such a step is counted, not listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import Enum

from cgverify.verifier.state import State
from cgverify.verifier.values import Leaf, Step, is_callers_memory


class Cause(Enum):
    """How two executions differ at one step."""

    SYMBOL = "another op"
    LITERALS = "other constants"
    OPERANDS = "other arguments"
    MEMORY = "memory in another state"
    DRAW = "another place in the sequence of random draws"
    WORLD = "another place in the sequence of opaque ops"
    MISSING = "never runs"
    REPEATED = "runs more often"
    EXTRA = "does not run in the trace before"
    RETURNED = "another value is returned"
    ALIASED = "returned values share memory otherwise"
    STATE = "the final state differs"


@dataclass(frozen=True, slots=True)
class Divergence:
    """One disagreement.

    Attributes:
        cause: how the executions differ.
        before: the step of the trace before, if there is one.
        after: the step of the trace after, if there is one.
        dependents: how many steps differ only because of this one.
        leaf: for returned values, the position in RETURN, flat.
        detail: for a final state, what differs.
    """

    cause: Cause
    before: Step | None = None
    after: Step | None = None
    dependents: int = 0
    leaf: int | None = None
    detail: str = ""

    @property
    def writes_callers_memory(self) -> bool:
        """Whether the step of the trace before writes memory that the caller holds."""
        return self.before is not None and any(is_callers_memory(root) for root in self.before.writes)


def compare(before: State, after: State) -> tuple[Divergence, ...]:
    """All disagreements; none if and only if the executions are equal."""
    lost = _unmatched(before.steps, after.steps)
    added = _unmatched(after.steps, before.steps)
    found = list(_steps(before, after, lost, added)) if lost or added else []
    if (lost or added) and not found:
        found.append(Divergence(Cause.STATE, detail="the ops that run"))
    found += _returned(before, after)
    return tuple(found or _final_state(before, after))


def _unmatched(steps: Iterable[Step], others: Iterable[Step]) -> list[Step]:
    """The steps left over when equal numbers are paired off, equal names first: then a leftover is the guilty one."""
    available = Counter(step.number for step in others)
    named = Counter((step.number, step.op.outputs) for step in others)
    rest = []
    for step in steps:
        if named[step.number, step.op.outputs] > 0:
            named[step.number, step.op.outputs] -= 1
            available[step.number] -= 1
        else:
            rest.append(step)
    unnamed, rest = rest, []
    for step in unnamed:
        if available[step.number] > 0:
            available[step.number] -= 1
        else:
            rest.append(step)
    return rest


def _steps(before: State, after: State, lost: list[Step], added: list[Step]) -> Iterable[Divergence]:
    partners = {name: step for step in lost for name in step.op.outputs}
    matched: set[int] = set()  # identities of the lost steps that have a partner
    missing = {id(step) for step in lost}
    dependents = 0
    found: list[Divergence] = []
    known = {step.number for step in before.steps}
    bare = {_bare(step) for step in before.steps}
    for step in added:
        partner = next((partners[name] for name in step.op.outputs if name in partners), None)
        if partner is not None:
            matched.add(id(partner))
        if not is_grounded(step, after, before):
            dependents += 1
        elif partner is None:
            repeated = step.number in known or _bare(step) in bare
            found.append(Divergence(Cause.REPEATED if repeated else Cause.EXTRA, None, step))
        elif _awaits(partner, step, missing, before):
            dependents += 1
        else:
            found.append(_paired(partner, step, before, after))
    for step in lost:
        if id(step) in matched:
            continue
        if is_grounded(step, before, after):
            found.append(Divergence(Cause.MISSING, step, None))
        else:
            dependents += 1
    found = list(dict.fromkeys(found))
    for divergence in found:
        yield _with_dependents(divergence, dependents if len(found) == 1 else 0)


def _with_dependents(divergence: Divergence, count: int) -> Divergence:
    return Divergence(divergence.cause, divergence.before, divergence.after, count) if count else divergence


def is_grounded(step: Step, own: State, other: State) -> bool:
    """Whether everything the step saw exists in the other execution."""
    positions = (*step.drawn, *step.world)
    if any(position not in other.positions and position not in own.origins for position in positions):
        return False
    return all(
        operand.number in other.seen and all(v is None or v in other.seen for v in operand.versions)
        for operand in step.operands
    )


def _bare(step: Step) -> Hashable:
    """The step without the state of memory and generators."""
    return (step.symbol, step.literals, tuple(operand.number for operand in step.operands))


def _awaits(was: Step, now: Step, missing: set[int], before: State) -> bool:
    """Whether the steps differ only in memory, by a write that is itself reported."""
    if _cause(was, now) is not Cause.MEMORY:
        return False
    versions = {v for operand in was.operands for v in operand.versions} - {
        v for operand in now.operands for v in operand.versions
    }
    writers = [before.writers[version] for version in versions if version is not None]
    return bool(writers) and all(id(writer) in missing for writer in writers)


def _paired(was: Step, now: Step, before: State, after: State) -> Divergence:
    """How the step that defines a name differs; if it only sees another draw, the draw itself is guilty."""
    cause = _cause(was, now)
    if cause is Cause.OPERANDS:
        for old, new in zip(was.operands, now.operands, strict=False):
            drawn, draws = before.makers.get(old.number), after.makers.get(new.number)
            if drawn is not None and draws is not None and drawn.drawn != draws.drawn and _bare(drawn) == _bare(draws):
                return Divergence(Cause.DRAW, drawn, draws)
    return Divergence(cause, was, now)


def _cause(before: Step, after: Step) -> Cause:
    if before.symbol != after.symbol:
        return Cause.SYMBOL
    if before.literals != after.literals:
        return Cause.LITERALS
    if [operand.number for operand in before.operands] != [operand.number for operand in after.operands]:
        return Cause.OPERANDS
    if [operand.versions for operand in before.operands] != [operand.versions for operand in after.operands]:
        return Cause.MEMORY
    return Cause.DRAW if before.drawn != after.drawn else Cause.WORLD


def _returned(before: State, after: State) -> list[Divergence]:
    """Entries of RETURN that differ though their values exist in the trace before."""
    if len(before.returned) != len(after.returned):
        return []  # a changed structure, which CG108 reports
    found = []
    for position, (was, now) in enumerate(zip(before.returned, after.returned, strict=True)):
        if was.key != now.key and now.number in before.seen:
            found.append(Divergence(Cause.RETURNED, leaf=position))
    equal = all(was.key == now.key for was, now in zip(before.returned, after.returned, strict=True))
    if equal and _sharing(before.returned) != _sharing(after.returned):
        patterns = zip(_sharing(before.returned), _sharing(after.returned), strict=True)
        position = next(i for i, (was, now) in enumerate(patterns) if was != now)
        found.append(Divergence(Cause.ALIASED, leaf=position))
    return found


def _sharing(leaves: tuple[Leaf, ...]) -> list[Hashable]:
    """For each entry, the first entry that is the same object, and the first ones that share its memory."""
    first: dict[Hashable, int] = {}
    pattern: list[Hashable] = []
    for position, leaf in enumerate(leaves):
        same = first.setdefault(("object", leaf.identity), position)
        pattern.append((same, tuple(first.setdefault(root, position) for root in leaf.roots)))
    return pattern


def _final_state(before: State, after: State) -> list[Divergence]:
    """What differs when no single step explains it."""
    pairs: dict[str, tuple[object, object]] = {
        "the caller's memory": (_callers(before), _callers(after)),
        "the random generators": (before.draws, after.draws),
        "the order of opaque ops": (before.world, after.world),
    }
    if len(before.returned) == len(after.returned):
        keys = [[leaf.key for leaf in state.returned] for state in (before, after)]
        pairs["the returned values"] = (keys[0], keys[1])
    return [Divergence(Cause.STATE, detail=what) for what, (was, now) in pairs.items() if was != now]


def _callers(state: State) -> dict[Hashable, int]:
    return {root: version for root, version in state.versions.items() if is_callers_memory(root)}
