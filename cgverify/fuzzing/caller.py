"""The caller that a history describes: the tensors it passes, the results it holds, the backwards that are pending."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from cgverify.fuzzing.arguments import DTYPES, make_inputs, make_values
from cgverify.fuzzing.changes import decide_share, overlaps_itself, values_like, weights_of
from cgverify.fuzzing.program import (
    Backward,
    Call,
    Collect,
    Draw,
    Event,
    Feed,
    Forget,
    History,
    Input,
    Other,
    Relayout,
    Replace,
    Reseed,
    Scribble,
    Share,
    Stream,
    Write,
)
from cgverify.fuzzing.records import CallRecord, Record, Side, first_line
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.snapshots import relate, take_snapshots
from cgverify.fuzzing.surroundings import in_autocast, in_capture, in_thread, on_stream
from cgverify.fuzzing.values import TensorType, ValueType

import torch


def other_function(x: torch.Tensor) -> torch.Tensor:
    """The other function that a caller calls in between: a few launches and memory of its own."""
    return torch.relu(x * 2.0) + x


def spread_seeds(seeds: Sequence[int], count: int) -> list[int]:
    """Return one seed for each input from the seeds of a call."""
    return [seeds[n % len(seeds)] * 64 + n for n in range(count)]


class Caller:
    """Makes the calls of a history on one side and records what it sees.

    Args:
        side: makes what is called.
        resolved: the program.
    """

    def __init__(self, side: Side, resolved: Resolved) -> None:
        self.resolved = resolved
        self.entries: list[Input] = list(resolved.inputs)
        self.layouts: list[str] = [entry.layout for entry in resolved.inputs]
        self.record = Record()
        self.held: list[tuple[int, int, torch.Tensor]] = []
        self.pending: list[tuple[int, list[torch.Tensor], list[torch.Tensor]]] = []
        self.streams: dict[int, torch.cuda.Stream] = {}
        self.stream = 0
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.other: Callable[..., Any] | None = None
        self._seed(0)
        seeds = [entry.seed for entry in resolved.inputs]
        self.subject, self.inputs = side(make_inputs(resolved.inputs, seeds, self.layouts))

    def run(self, history: History) -> Record:
        """Make the calls, then what backwards are left; return the record."""
        for event in history:
            self._step(event)
            if self.record.calls and self.record.calls[-1].error:
                return self.record
        while self.pending:
            self._step(Backward(0))
        contents = take_snapshots([value for _, _, value in self.held])
        self.record.held = [(call, place, seen) for (call, place, _), seen in zip(self.held, contents, strict=True)]
        return self.record

    def _step(self, event: Event) -> None:
        match event:
            case Call():
                self._call(event)
            case Backward(number, keep, only):
                self._backward(number, keep, only)
            case Reseed(seed):
                self._seed(seed)
            case Draw():
                torch.rand(3, device="cuda")
            case Relayout(number, layout):
                self._relayout(number, layout)
            case Stream(number):
                self.stream = number % 3
            case Other(seed, drop):
                self._call_other(seed, drop)
            case Collect():
                gc.collect(1)  # the oldest generation is all that was ever imported: not the caller's
            case Forget():
                self.held.clear()
            case _ if not self.resolved.needs_grad:
                # While a backward may be pending, a caller's write would be its own error, not the function's.
                self._change(event)

    def _change(self, event: Event) -> None:
        match event:
            case Write(number, seed) if self.inputs:
                self._overwrite(self.inputs[number % len(self.inputs)], seed)
            case Replace(number, seed) if self.inputs:
                target = self.inputs[number % len(self.inputs)]
                target.data = torch.empty_like(target.data).copy_(values_like(target, seed))
            case Scribble(number, seed) if self.held:
                self._overwrite(self.held[number % len(self.held)][2], seed)
            case Share(number, base, shifted) if self.inputs:
                self._share(number % len(self.inputs), base % len(self.inputs), shifted)
            case Feed(number, result) if self.inputs and self.held:
                self._feed(number % len(self.inputs), self.held[result % len(self.held)][2])

    def _call(self, event: Call) -> None:
        # As in eager PyTorch, a write to what a pending backward has saved would be the caller's own error.
        while self.pending and self.resolved.writes_inputs:
            self._backward(0, False, None)
        if event.seeds:
            self._new_arguments(event.seeds)
        number = len(self.record.calls)
        call = CallRecord()
        self.record.calls.append(call)
        try:
            results = list(self._invoke(event))
        except Exception as error:  # whatever the function under test raises is a finding, judged by the oracle
            call.error = first_line(error)
            call.exception = error
            return
        call.results = take_snapshots(results)
        call.inputs = take_snapshots(self.inputs)
        call.relations = relate([*self.inputs, *results])
        call.generators = (_position(torch.get_rng_state()), _position(torch.cuda.get_rng_state()))
        self.held += [(number, place, value) for place, value in enumerate(results) if isinstance(value, torch.Tensor)]
        if differentiable := self._differentiable(results):
            self.pending.append((number, differentiable, list(self.inputs)))

    def _invoke(self, event: Call) -> Any:
        """Call the function where and how the event says."""
        subject = in_autocast(DTYPES[event.autocast], self.subject) if event.autocast else self.subject
        with torch.no_grad() if event.quiet else nullcontext():
            if event.captured and self.record.calls[1:] and self.resolved.may_be_captured:
                self.graphs.append(torch.cuda.CUDAGraph())
                return in_capture(self.graphs[-1], subject, self.inputs)
            if event.thread:
                return in_thread(subject, self.inputs)
            if self.stream:
                stream = self.streams.setdefault(self.stream, torch.cuda.Stream())
                return on_stream(stream, subject, self.inputs)
            return subject(*self.inputs)

    def _differentiable(self, results: list[Any]) -> list[torch.Tensor]:
        """Return the results to start backward from: computed ones that the program's types call differentiable.

        A trace built directly has no backward.
        """
        if self.subject.compile_also is None:
            return []
        types, count = self.resolved.types, len(self.inputs)
        computed = [n is not None and n >= count and _needs_grad(types[n]) for n in self.resolved.outputs]
        return [value for value, starts in zip(results, computed, strict=False) if starts and value.requires_grad]

    def _new_arguments(self, seeds: Sequence[int]) -> None:
        """Replace the arguments by new tensors; parameters and buffers stay."""
        made = make_inputs(self.entries, spread_seeds(seeds, len(self.entries)), self.layouts)
        self.inputs = [
            new if entry.role == "arg" else old for entry, new, old in zip(self.entries, made, self.inputs, strict=True)
        ]

    def _relayout(self, number: int, layout: str) -> None:
        """Change the layout of an argument that the program does not write through overlapping elements."""
        if not self.inputs:
            return
        written = {s.writes for s in self.resolved.statements}
        if layout != "expanded" or not any(n is not None for n in written):
            self.layouts[number % len(self.inputs)] = layout

    def _share(self, number: int, base: int, shifted: bool) -> None:
        """From here on, make one argument from the memory of an earlier one, or of its own again."""
        traced_anew = self.subject.compile_also is not None
        entry = decide_share(self.resolved, self.entries, number, base, traced_anew=traced_anew)
        if entry is not None:
            self.entries[number] = entry
            if entry.alias_of is not None:
                self.layouts[number] = "offset" if shifted else "contiguous"

    def _feed(self, number: int, result: torch.Tensor) -> None:
        """Pass an earlier result, in the next call with the same tensors, as an argument."""
        old = self.inputs[number]
        kinds = [(tensor.shape, tensor.dtype, tensor.device) for tensor in (old, result)]
        shares = relate([*self.inputs, result]) or overlaps_itself(result)
        if self.entries[number].role == "arg" and kinds[0] == kinds[1] and not (shares and self.resolved.writes):
            self.inputs[number] = result

    def _call_other(self, seed: int, drop: bool) -> None:
        """Call another function that was compiled in the same way, or let go of it."""
        if self.subject.compile_also is None:
            return
        if drop:
            self.other = None
            return
        self.other = self.other or self.subject.compile_also(other_function)
        self.held.append((len(self.record.calls), -1, self.other(make_values((3,), "f32", "cuda", seed))))

    def _overwrite(self, target: torch.Tensor, seed: int) -> None:
        if not overlaps_itself(target):
            with torch.no_grad():
                target.detach().copy_(values_like(target, seed))

    def _backward(self, number: int, keep: bool, only: int | None) -> None:
        if not self.pending:
            return
        place = number % len(self.pending)
        call, results, inputs = self.pending[place] if keep else self.pending.pop(place)
        starts = results if only is None else [results[only % len(results)]]
        try:
            torch.autograd.backward(starts, [weights_of(result) for result in starts], retain_graph=keep)
        except Exception as error:  # as in a call
            self.record.calls[call].error = f"backward: {first_line(error)}"
            self.record.calls[call].exception = error
            self.pending.clear()
            return
        gradients = [tensor.grad for tensor in inputs]
        self.record.gradients.append((call, take_snapshots(gradients)))
        self.held += [(call, -2 - n, grad) for n, grad in enumerate(gradients) if grad is not None]

    def _seed(self, seed: int) -> None:
        torch.manual_seed(seed)
        torch.cuda.manual_seed(seed)


def _needs_grad(kind: ValueType) -> bool:
    return isinstance(kind, TensorType) and kind.needs_grad


def _position(state: torch.Tensor) -> bytes:
    return state.numpy().tobytes()
