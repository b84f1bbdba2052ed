"""What a picture says of one rewrite: the lines of both traces, which line became which, regions, and reasons.

An op of the trace before and an op of the trace after are partners if they have the same symbol and the same results;
names are the identity of values. An op without results is told by what it reads. Nothing is believed of a plan but the
roles and the reasons, which are the transform's own words.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from cgverify.ir import Op, OpKind, TraceView, op_text
from cgverify.plan import CapturePlan
from cgverify.verifier.region import Region
from cgverify.verifier.subject import Subject

KINDS = {
    OpKind.PARAMETER: "parameter",
    OpKind.UNPACK: "unpack",
    OpKind.COMPUTE: "op",
    OpKind.DEL: "del",
    OpKind.RETURN: "return",
}

STATIC_BUFFER = "static buffer"
"""The role of a result that is handed out in the graph's own memory, which the next replay overwrites."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one trace.

    Attributes:
        key: unique in its picture: `b3`, `a5`, and `a5.2` for op 2 of the region at 5; numbered as in diagnostics.
        kind: `parameter`, `unpack`, `op`, `region`, `del` or `return`.
        text: as the trace prints it, without its comment.
        types: name and type of each value it makes.
        reads: names of the values it uses.
        defines: names of the values it makes.
        region: number of the region that it is or belongs to; None outside.
        partners: keys of the lines of the other trace that do the same; of a region, of all it holds.
        source: `file:line` of the user's code, where known.
        reason: why it stays outside of regions; empty if it does not, or nobody says.
    """

    key: str
    kind: str
    text: str
    types: tuple[tuple[str, str], ...]
    reads: tuple[str, ...]
    defines: tuple[str, ...]
    region: int | None = None
    partners: tuple[str, ...] = ()
    source: str | None = None
    reason: str = ""

    @property
    def number(self) -> str:
        """Its place in its trace, as in diagnostics."""
        return self.key[1:]


@dataclass(frozen=True, slots=True)
class Passed:
    """A value that a region takes or gives.

    Attributes:
        name: the value's name.
        role: the plan's word for how, or what the contract says of results; empty if nobody says.
        written: whether the region may write its memory.
    """

    name: str
    role: str = ""
    written: bool = False


@dataclass(frozen=True, slots=True)
class RegionBox:
    """One region.

    Attributes:
        number: its place among the regions, from 0.
        name: its symbol.
        ops: how many ops it holds.
        inputs: what it takes, in order.
        outputs: what it gives, in order.
        device: where it runs; empty if there is no plan.
        random: whether it draws random numbers.
    """

    number: int
    name: str
    ops: int
    inputs: tuple[Passed, ...]
    outputs: tuple[Passed, ...]
    device: str
    random: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """One rewrite.

    Attributes:
        name: of the generated function, such as `computation`.
        before: lines of the trace before.
        after: lines of the trace after; the ops of a region follow it.
        regions: in order.
    """

    name: str
    before: tuple[Line, ...]
    after: tuple[Line, ...]
    regions: tuple[RegionBox, ...]

    @property
    def ops(self) -> int:
        """How many ops of the trace after compute, in regions and outside."""
        return sum(line.kind == "op" for line in self.after)

    @property
    def left_out(self) -> tuple[Line, ...]:
        """The ops outside of regions, in order."""
        return tuple(line for line in self.after if line.kind == "op" and line.region is None)


@dataclass(frozen=True, slots=True)
class _Place:
    """An op, where it stands, and the number of the region around it."""

    op: Op
    trace: TraceView
    region: int | None = None


def compute_picture(before: TraceView, after: TraceView, plan: CapturePlan | None) -> Picture:
    """Compare two traces and say what became of what.

    Args:
        before: the trace before the transform.
        after: the trace it emitted.
        plan: the transform's claims about this rewrite, if it makes any.
    """
    subject = Subject(before, after)
    left = {f"b{op.index}": _Place(op, before) for op in before.ops if op.kind in KINDS}
    right = dict(_places(subject))
    heads = {f"a{region.op.index}": number for number, region in enumerate(subject.regions)}
    partners = _match(left, right)
    held: dict[int, list[str]] = defaultdict(list)
    for key, place in right.items():
        if place.region is not None and key not in heads:
            held[place.region] += partners.get(key, ())
    reasons = {} if plan is None else {f"b{left_out.op}": left_out.reason for left_out in plan.left_out}

    def line_before(key: str) -> Line:
        found = partners.get(key, ())
        region = right[found[0]].region if found else None
        return _line(key, left[key], KINDS[left[key].op.kind], region, found, reasons.get(key, ""))

    def line_after(key: str) -> Line:
        place = right[key]
        if key in heads:
            return _line(key, place, "region", place.region, tuple(held[heads[key]]), "")
        found = partners.get(key, ())
        reason = reasons.get(found[0], "") if found else ""
        return _line(key, place, KINDS[place.op.kind], place.region, found, reason)

    output = "" if subject.contract.fresh_outputs else STATIC_BUFFER
    boxes = tuple(_box(number, region, output) for number, region in enumerate(subject.regions))
    return Picture(after.name, tuple(map(line_before, left)), tuple(map(line_after, right)), boxes)


def _places(subject: Subject) -> Iterator[tuple[str, _Place]]:
    """The ops of the trace after, each region followed by what it holds."""
    regions = {region.op.index: (number, region) for number, region in enumerate(subject.regions)}
    for op in subject.after.ops:
        if op.index not in regions:
            if op.kind in KINDS:
                yield f"a{op.index}", _Place(op, subject.after)
            continue
        number, region = regions[op.index]
        yield f"a{op.index}", _Place(op, subject.after, number)
        for inner in region.computing:
            yield f"a{op.index}.{inner.index}", _Place(inner, region.body or subject.after, number)


def _match(left: Mapping[str, _Place], right: Mapping[str, _Place]) -> dict[str, tuple[str, ...]]:
    """Partners by key, both ways; what stands twice is paired in order, and a DEL has none."""
    waiting: dict[Hashable, deque[str]] = defaultdict(deque)
    for key, place in left.items():
        waiting[_identity(place.op)].append(key)
    partners: dict[str, tuple[str, ...]] = {}
    for key, place in right.items():
        found = waiting[_identity(place.op)]
        if found and place.op.kind is not OpKind.DEL:
            other = found.popleft()
            partners[key], partners[other] = (other,), (key,)
    return partners


def _identity(op: Op) -> Hashable:
    return op.kind, op.name, op.outputs or op.reads


def _line(key: str, place: _Place, kind: str, region: int | None, partners: tuple[str, ...], reason: str) -> Line:
    op = place.op
    made = {proxy.name: proxy for proxy in op.bsym.flat_proxy_outs}
    types = tuple((name, str(made[name].type_string())) for name in op.defines)
    return Line(key, kind, _text(place), types, op.reads, op.defines, region, partners, op.source, reason)


def _text(place: _Place) -> str:
    if place.op.kind is OpKind.PARAMETER:  # prints as a comment
        return ", ".join(place.op.outputs)
    try:
        return op_text(place.trace.trace, place.op.bsym, limit=400).partition("  # ")[0]
    except Exception:  # a malformed bound symbol: Thunder's printers raise whatever they meet
        return place.op.name


def _box(number: int, region: Region, output: str) -> RegionBox:
    """A region by its plan; without one `output` is what its results are."""
    claim = region.claim
    if claim is None:
        inputs = tuple(Passed(name) for name in dict.fromkeys(region.arguments))
        outputs = tuple(Passed(name, output) for name in region.outputs)
        return RegionBox(number, region.name, len(region.computing), inputs, outputs, "", False)
    inputs = tuple(Passed(entry.name, entry.role.value, entry.written) for entry in claim.inputs)
    outputs = tuple(Passed(entry.name, entry.role.value) for entry in claim.outputs)
    return RegionBox(number, region.name, len(region.computing), inputs, outputs, claim.device, claim.random)
