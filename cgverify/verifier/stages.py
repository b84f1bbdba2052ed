"""Compares two stages of one pipeline: the later trace returns what the earlier one does and has the same effects.

Unlike a rewrite, a stage may drop what nobody reads, merge what is equal, and say ops in other words, so only outcomes
are compared, on leaves (`lowered.py`): results, the caller's memory, random draws, opaque ops, and gradients where both
sides compute them. Where outcomes differ, the first leaf that only one side has is the evidence. If the other side has
the same leaf with other arguments, the stage is wrong (error); if the leaf has no counterpart to be compared with, for
example a kernel of an executor without a decomposition, the stage is not proved (warning, CG504).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from cgverify.diagnostics import Diagnostic, Location, Note, Report, Severity, count
from cgverify.ir import TraceView, view_trace
from cgverify.verifier import registry
from cgverify.verifier.divergence import is_grounded
from cgverify.verifier.locations import locate
from cgverify.verifier.lowered import Handed
from cgverify.verifier.outcomes import Outcome, place_of, run_lowered
from cgverify.verifier.semantics import TraceCtx
from cgverify.verifier.values import Numbers, Step, is_callers_memory


def verify_stage(before: TraceCtx, after: TraceCtx, *, backward: TraceCtx | None = None) -> Report:
    """Checks that a later stage of a pipeline computes what an earlier one does.

    Args:
        before: a trace at any stage: as recorded, joint, or an execution trace.
        after: a later stage of the same trace.
        backward: where `after` is the forward half of a joint trace, its other half.

    Returns:
        A report: errors where `after` is wrong, warnings with code CG504 where it is not proved.

    Raises:
        TypeError: one of them is not a Thunder trace.
    """
    numbers = Numbers()
    was = run_lowered(view_trace(before), numbers)
    now = run_lowered(view_trace(after), numbers, None if backward is None else view_trace(backward))
    return Report(now.view.name, tuple(_compare(was, now)))


@dataclass(frozen=True)
class _Sides:
    """Both outcomes, and the first leaves that only one of them has: all that such a leaf saw, the other has too."""

    was: Outcome
    now: Outcome
    lost: list[Step]
    added: list[Step]

    def behind(self, old: list[Handed], new: list[Handed]) -> _Sides:
        """Only the leaves that these values depend on."""
        before = self.was.state.behind(handed.key for handed in old)
        after = self.now.state.behind(handed.key for handed in new)
        lost = [step for step in self.lost if step.number in before]
        return _Sides(self.was, self.now, lost, [step for step in self.added if step.number in after])

    @property
    def is_wrong(self) -> bool:
        """Whether the difference is a fault: the first leaves that differ are of one kind, or none explains it."""
        if not self.lost and not self.added:
            return True
        return bool(self.lost and self.added) and self.lost[0].symbol == self.added[0].symbol

    def wrong(self, code: str, message: str, where: Location) -> Diagnostic:
        """An error with this code, or a warning that it is not proved."""
        if self.is_wrong:
            return _say(code, message, where, self.evidence)
        help = "no fault is known: these two ops have no common decomposition to compare"
        return _say("CG504", message, where, self.evidence, help, Severity.WARNING)

    @property
    def evidence(self) -> tuple[Note, ...]:
        """The first leaf of each side that the other does not have."""
        lost = [Note(f"only before: {_leaf(s)}", _where(self.was, s, " (before)")) for s in self.lost[:1]]
        return (*lost, *(Note(f"only after: {_leaf(s)}", _where(self.now, s, "")) for s in self.added[:1]))


def _compare(was: Outcome, now: Outcome) -> Iterator[Diagnostic]:
    if len(was.view.parameters) != len(now.view.parameters):
        yield _say("CG108", f"`{now.view.name}` takes other parameters than before", Location(now.view.name))
        return
    sides = _take_sides(was, now)
    yield from _differing("result", was.results, now.results, sides)
    if was.gradients is not None and now.gradients is not None:
        yield from _differing("gradient", was.gradients, now.gradients, sides)
    yield from _stale(sides)
    yield from _effects(sides)


def _take_sides(was: Outcome, now: Outcome) -> _Sides:
    before = {step.number for step in was.state.steps}
    after = {step.number for step in now.state.steps}
    lost = [s for s in was.state.steps if s.number not in after and is_grounded(s, was.state, now.state)]
    added = [s for s in now.state.steps if s.number not in before and is_grounded(s, now.state, was.state)]
    return _Sides(was, now, lost, added)


def _differing(what: str, were: tuple[Handed, ...], are: tuple[Handed, ...], sides: _Sides) -> Iterator[Diagnostic]:
    name, where = sides.now.view.name, _return_of(sides.now.view)
    if len(were) != len(are):
        message = f"`{name}` hands out {count(len(are), what)}; before, there were {len(were)}"
        yield _say("CG108", message, where, help="hand out what the trace before does")
        return
    wrong = [position for position, (old, new) in enumerate(zip(were, are, strict=True)) if old.key != new.key]
    if not wrong:
        return
    first, more = wrong[0], len(wrong) - 1
    message = f"{what} {first}, `{are[first].name}`, is not what `{were[first].name}` was before"
    if more:
        message += f", nor are {more} more"
    sides = sides.behind([were[position] for position in wrong], [are[position] for position in wrong])
    yield sides.wrong("CG501", message, where)


def _stale(sides: _Sides) -> Iterator[Diagnostic]:
    """Values that the gradients of the later stage read overwritten, unless those of the earlier one did too."""
    if sides.was.stale:
        return
    for name, step in sides.now.stale.items():
        message = f"the gradient reads `{name}` after it was overwritten"
        notes = (Note("overwritten here", _where(sides.now, step, "")),)
        yield _say("CG307", message, _return_of(sides.now.view), notes, "save a copy for the backward trace")


def _effects(sides: _Sides) -> Iterator[Diagnostic]:
    was, now, name = sides.was, sides.now, sides.now.view.name
    whole = Location(name)
    if _callers(was) != _callers(now):
        gone = len(_writers(now)) < len(_writers(was))
        message = f"`{name}` leaves other values in the caller's memory than before"
        found = sides.wrong("CG401" if gone else "CG402", message, whole)
        yield replace(found, severity=Severity.ERROR) if gone else found
    if was.state.draws != now.state.draws:
        draws, were = ([step for step in side.state.steps if step.drawn] for side in (now, was))
        code = "CG402" if len(draws) == len(were) else "CG502" if len(draws) < len(were) else "CG503"
        message = f"`{name}` makes {count(len(draws), 'random draw')}; before, there were {len(were)}"
        if code == "CG402":
            message = f"`{name}` draws other random numbers than before, or in another order"
        yield _say(code, message, whole, sides.evidence)
    if was.state.world != now.state.world:
        message = f"`{name}` runs other ops of unknown effect than before, or in another order"
        yield _say("CG504", message, whole, sides.evidence, severity=Severity.WARNING)


def _writers(outcome: Outcome) -> list[Step]:
    return [step for step in outcome.state.steps if any(map(is_callers_memory, step.writes))]


def _callers(outcome: Outcome) -> dict[Hashable, int]:
    return {root: version for root, version in outcome.state.versions.items() if is_callers_memory(root)}


def _leaf(step: Step) -> str:
    symbol = step.symbol if isinstance(step.symbol, str) else step.op.name
    return f"{', '.join(step.op.outputs)} = {symbol}({', '.join(operand.name for operand in step.operands)})"


def _where(outcome: Outcome, step: Step, side: str) -> Location:
    place = locate(outcome.view, place_of(outcome, step))
    return replace(place, trace=f"{place.trace}{side}")


def _return_of(view: TraceView) -> Location:
    return Location(view.name) if view.return_op is None else locate(view, view.return_op)


def _say(
    code: str,
    message: str,
    location: Location,
    notes: tuple[Note, ...] = (),
    help: str = "",
    severity: Severity = Severity.ERROR,
) -> Diagnostic:
    return registry.find(code).diagnose(registry.Finding(message, location, notes, help, severity))
