"""Faults in what results share memory with: arguments, each other, or nothing (group A)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from cgverify.fuzzing.mutants.base import Mutant
from cgverify.runtime import graph as graph_module
from cgverify.runtime import guards
from cgverify.runtime import results as results_module
from cgverify.runtime.guards import EntryGuard
from cgverify.runtime.results import Result, Results

import torch

Tensors = Sequence[torch.Tensor]

_alias_of_input = results_module._alias_of_input
_plan_results = results_module.plan_results
_view_of_block = results_module._view_of_block
_view_of_fresh = results_module._view_of_fresh


class DetachedView(Mutant):
    """A result that is an input or a view of one is copied: it no longer follows the caller's tensor."""

    faults = ("A12", "A11")
    in_call = ((results_module, "_alias_of_input", lambda result, buffers: None),)


def _handed_out(position: int, tensor: torch.Tensor) -> Result:
    return lambda args, fresh: tensor


def _the_buffer_itself(result: torch.Tensor, buffers: Tensors) -> Result | None:
    return None if _alias_of_input(result, buffers) is None else _handed_out(0, result)


class ResultIsBuffer(Mutant):
    """A result that is an input or a view of one comes back as the static buffer."""

    faults = ("A11", "A02")
    in_call = ((results_module, "_alias_of_input", _the_buffer_itself),)


def _argument_from_the_start(position: int, result: torch.Tensor, buffer: torch.Tensor) -> Result:
    size, stride = result.size(), result.stride()
    return lambda args, fresh: args[position].as_strided(size, stride, int(args[position].storage_offset()))


class ViewFromTheStart(Mutant):
    """A result that is a view of an input begins where the input begins."""

    faults = ("A12",)
    in_call = ((results_module, "_view_of_argument", _argument_from_the_start),)


class TrackedResults(Mutant):
    """A detached argument comes back as a view that autograd tracks."""

    faults = ("A12",)
    in_call = ((results_module, "_seen_by_autograd", lambda result, base: torch.as_strided),)


def _copied(make: Result) -> Result:
    return lambda args, fresh: make(args, fresh).clone()


class SeparatedResults(Mutant):
    """Results that share memory get memory of their own each."""

    faults = ("A12",)
    in_call = (
        (results_module, "_view_of_block", lambda *args: _copied(_view_of_block(*args))),
        (results_module, "_view_of_fresh", lambda *args: _copied(_view_of_fresh(*args))),
    )


def _from_the_start(position: int, result: torch.Tensor, owner: torch.Tensor) -> Result:
    size, stride = result.size(), result.stride()
    return lambda args, fresh: fresh[position].as_strided(size, stride, 0)


class SharedFromTheStart(Mutant):
    """A result that is a view of another begins where that begins."""

    faults = ("A12",)
    in_call = ((results_module, "_view_of_fresh", _from_the_start),)


def _twins_apart(buffers: Tensors, results: Tensors, lent: Collection[int]) -> Results:
    plan = _plan_results(buffers, results, lent)
    seen: set[int] = set()
    makers: list[Result] = []
    for position in plan.order:
        make = plan.makers[position]
        makers.append(_copied(make) if position in seen else make)
        seen.add(position)
    return replace(plan, makers=makers, order=list(range(len(makers))))


class SplitTwins(Mutant):
    """A body that returns one tensor under two names gives the caller two tensors."""

    faults = ("A12",)
    in_call = ((graph_module, "plan_results", _twins_apart),)


class IgnoredOverlap(Mutant):
    """A written input that overlaps another gets a buffer of its own like any other."""

    faults = ("A04",)
    in_call = (
        (guards, "_has_written_overlap", lambda region, args: False),
        (EntryGuard, "_is_overlapped", lambda guard, addresses: False),
    )
