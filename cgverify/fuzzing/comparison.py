"""Compares two records of the same history, and says how equal is equal.

Tiers, strongest first. T1: raw bits, against the un-graphed function, whose kernels are the same. T2: raw bits,
against anything, where every intermediate is an exactly representable integer. T3: against eager PyTorch with other
kernels: an error against float64 of at most three times eager's own. NaN equals NaN of the same bits only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

from cgverify.fuzzing.execution import CallRecord, Record
from cgverify.fuzzing.invariants import (
    Broken,
    HeldResultChanged,
    LostWrite,
    MissingError,
    UnexpectedError,
    WrongAliasing,
    WrongError,
    WrongGenerator,
    WrongGradient,
    WrongMetadata,
    WrongResult,
)
from cgverify.fuzzing.snapshots import Snapshot

import torch


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two records.

    Attributes:
        invariant: the class of what is broken.
        call: number of the call, from 0.
        place: position of the result, input or gradient; -1 for the call as a whole.
        evidence: both sides, in words.
        expected: the reference's content, where content differs.
        found: the other content.
    """

    invariant: type[Broken]
    call: int
    place: int
    evidence: str
    expected: Snapshot | None = None
    found: Snapshot | None = None


def compare_records(reference: Record, tested: Record, *, metadata: bool = True) -> Iterator[Difference]:
    """Yield every difference, call by call, then gradients, then results still held.

    `metadata=False` leaves out strides, requires_grad, aliasing and the texts of errors, in which Thunder legitimately
    differs from eager.
    """
    for number, (expected, found) in enumerate(zip_longest(reference.calls, tested.calls)):
        if expected is None or found is None:
            made = f"{len(tested.calls)} calls are made instead of {len(reference.calls)}"
            yield Difference(UnexpectedError if found is None else MissingError, number, -1, made)
            return
        if expected.error or found.error:
            yield from _compare_errors(number, expected, found, metadata)
        else:
            yield from _compare_call(number, expected, found, metadata)
    yield from _compare_gradients(reference, tested, metadata)
    yield from _compare_held(reference, tested, metadata)


def _compare_errors(number: int, expected: CallRecord, found: CallRecord, texts: bool) -> Iterator[Difference]:
    if not expected.error:
        yield Difference(UnexpectedError, number, -1, f"raises {found.error}")
    elif not found.error:
        yield Difference(MissingError, number, -1, f"returns, where the reference raises {expected.error}")
    elif texts and _without_addresses(expected.error) != _without_addresses(found.error):
        yield Difference(WrongError, number, -1, f"raises {found.error} instead of {expected.error}")


def _without_addresses(text: str) -> str:
    """Leave out what differs from run to run: addresses, and the numbers in generated names."""
    return re.sub(r"0x[0-9a-f]+|(?<=[a-z_])[0-9]+", "", text)


def _compare_gradients(reference: Record, tested: Record, metadata: bool) -> Iterator[Difference]:
    for expected, found in zip_longest(reference.gradients, tested.gradients):
        if expected is None or found is None or expected[0] != found[0]:
            calls = [[call for call, _ in record.gradients] for record in (tested, reference)]
            call = (expected or found)[0]
            yield Difference(WrongGradient, call, -1, f"backward runs for the calls {calls[0]} instead of {calls[1]}")
            return
        for place, (a, b) in enumerate(zip(expected[1], found[1], strict=True)):
            # Where eager PyTorch makes no gradient, Thunder may make one of zeros.
            absent = not metadata and a.kind != b.kind and _is_nothing(a) and _is_nothing(b)
            if (a.kind, a.dtype, a.shape, a.bits) != (b.kind, b.dtype, b.shape, b.bits) and not absent:
                yield _content(WrongGradient, expected[0], place, f"gradient of input {place}", a, b)


def _is_nothing(gradient: Snapshot) -> bool:
    return gradient.kind == "NoneType" or (gradient.kind == "tensor" and not bool(gradient.tensor().any()))


def _compare_held(reference: Record, tested: Record, metadata: bool) -> Iterator[Difference]:
    # Where Thunder makes a gradient of zeros, eager PyTorch may make none to hold.
    held_by_both = ([e for e in record.held if metadata or e[1] >= -1] for record in (reference, tested))
    for expected, found in zip_longest(*held_by_both):
        if expected is None or found is None or expected[:2] != found[:2]:
            held = f"{len(tested.held)} tensors are held at the end instead of {len(reference.held)}"
            yield Difference(WrongMetadata, (expected or found)[0], -1, held)
            return
        call, place, a = expected
        if a.bits != found[2].bits:
            what = f"{_held_name(place)}, still held at the end,"
            yield _content(HeldResultChanged, call, place, what, a, found[2])


def _held_name(place: int) -> str:
    """Return what a caller holds at a position, see Record."""
    if place >= 0:
        return f"result {place}"
    return "a result of the other function" if place == -1 else f"the gradient of input {-2 - place}"


def _compare_call(number: int, expected: CallRecord, found: CallRecord, metadata: bool) -> Iterator[Difference]:
    for place, (a, b) in enumerate(zip(expected.inputs, found.inputs, strict=True)):
        if seen := _compare_metadata(a, b, metadata):
            yield Difference(WrongMetadata, number, place, f"input {place} has {seen} after the call", a, b)
        elif a.bits != b.bits:
            yield _content(LostWrite, number, place, f"input {place} after the call", a, b)
    for place, (a_, b_) in enumerate(zip_longest(expected.results, found.results)):
        if a_ is None or b_ is None:
            yield Difference(
                WrongMetadata, number, place, f"{len(found.results)} results instead of {len(expected.results)}"
            )
            return
        if seen := _compare_metadata(a_, b_, metadata):
            yield Difference(WrongMetadata, number, place, f"result {place} has {seen}", a_, b_)
        elif a_.bits != b_.bits:
            yield _content(WrongResult, number, place, f"result {place}", a_, b_)
    if metadata and expected.relations != found.relations:
        pairs = sorted(expected.relations.items() ^ found.relations.items())
        count = len(expected.inputs)
        named = [" and ".join(f"input {n}" if n < count else f"result {n - count}" for n in pair) for pair, _ in pairs]
        yield Difference(WrongAliasing, number, -1, f"other memory is shared by {'; '.join(dict.fromkeys(named))}")
    if expected.generators != found.generators:
        which = "CPU" if expected.generators[0] != found.generators[0] else "CUDA"
        yield Difference(WrongGenerator, number, -1, f"the {which} generator stands at another position")


def _compare_metadata(a: Snapshot, b: Snapshot, strict: bool) -> str:
    fields = ("kind", "dtype", "shape", "device", *(("strides", "requires_grad") if strict else ()))
    for name in fields:
        if getattr(a, name) != getattr(b, name):
            return f"{name} {getattr(b, name)} instead of {getattr(a, name)}"
    return ""


def _content(invariant: type[Broken], call: int, place: int, what: str, a: Snapshot, b: Snapshot) -> Difference:
    return Difference(invariant, call, place, f"{what} is {b.describe()} instead of {a.describe()}", a, b)


def is_near(difference: Difference, exact: Callable[[Difference], Snapshot | None]) -> bool:
    """Whether a difference in content from eager is no more than rounding (tier T3).

    `exact` looks up the same content computed in float64. The candidate's error may be three times eager's own plus a
    few units in the last place of the largest element.
    """
    eager, candidate, anchor = difference.expected, difference.found, exact(difference)
    if (
        eager is None
        or candidate is None
        or anchor is None
        or (eager.kind, eager.dtype) != (candidate.kind, candidate.dtype)
    ):
        return False
    values = [_float64(snapshot) for snapshot in (eager, candidate, anchor)]
    if (
        any(value is None for value in values)
        or len({tuple(value.shape) for value in values if value is not None}) != 1
    ):
        return False
    own, other, true = (value for value in values if value is not None)
    if not torch.equal(own.isnan(), other.isnan()) or not torch.equal(own[own.isinf()], other[other.isinf()]):
        return False
    usable = own.isfinite() & other.isfinite() & true.isfinite()
    if not usable.any():
        return True
    epsilon = torch.finfo(getattr(torch, eager.dtype.removeprefix("torch."))).eps if eager.kind == "tensor" else 1e-15
    floor = 16 * epsilon * float(true[usable].abs().max())
    error, allowed = (other - true)[usable].abs(), 3 * (own - true)[usable].abs() + floor
    return bool((error <= allowed).all())


def _float64(snapshot: Snapshot) -> torch.Tensor | None:
    if snapshot.kind == "float":
        return torch.frombuffer(bytearray(snapshot.bits), dtype=torch.float64)
    if snapshot.kind != "tensor":
        return None
    tensor = snapshot.tensor()
    return tensor.to(torch.float64) if tensor.is_floating_point() else None
