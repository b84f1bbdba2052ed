"""Runs one side of a comparison: a function, called as a history says, and a record of all that a caller can see.

The reference and the function under test are run one after the other, from the same seeds, with tensors of their own.
What is compared is the record, so neither side can disturb the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cgverify.fuzzing.arguments import draw_values, make_inputs
from cgverify.fuzzing.program import (
    Backward,
    Call,
    Forget,
    History,
    Relayout,
    Replace,
    Reseed,
    Scribble,
    Write,
)
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.snapshots import Snapshot, relate, take_snapshots
from cgverify.fuzzing.values import TensorType, ValueType

import torch

Side = Callable[[list[torch.Tensor]], tuple[Callable[..., Any], list[torch.Tensor]]]
"""Given the first inputs, return the function of all inputs and the tensors that stand for them (a module has its
own).
"""


@dataclass(slots=True)
class CallRecord:
    """What one call showed.

    Attributes:
        results: its results, when it returned.
        inputs: its inputs, when it returned.
        relations: which of inputs and results (in this order) overlap in memory.
        generators: positions of the CPU and the CUDA generator.
        error: type and first line of the exception that ended it, else empty.
        exception: that exception.
    """

    results: list[Snapshot] = field(default_factory=list)
    inputs: list[Snapshot] = field(default_factory=list)
    relations: dict[tuple[int, int], int] = field(default_factory=dict)
    generators: tuple[bytes, bytes] = (b"", b"")
    error: str = ""
    exception: BaseException | None = None


@dataclass(slots=True)
class Record:
    """What a history showed.

    Attributes:
        calls: one record for each call made.
        gradients: for each backward, the number of its call and the gradients of that call's inputs.
        held: at the end of the history, the results still held: number of the call, position, content.
    """

    calls: list[CallRecord] = field(default_factory=list)
    gradients: list[tuple[int, list[Snapshot]]] = field(default_factory=list)
    held: list[tuple[int, int, Snapshot]] = field(default_factory=list)


def first_line(error: BaseException) -> str:
    """Return an exception's type and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"


def spread_seeds(seeds: Sequence[int], count: int) -> list[int]:
    """Return one seed for each input from the seeds of a call."""
    return [seeds[n % len(seeds)] * 64 + n for n in range(count)]


def prepare_values(resolved: Resolved, history: History) -> None:
    """Draw the values of all calls now: later, inside the emulation, drawing them would cost several times more."""
    for event in history:
        if isinstance(event, Call) and event.seeds:
            for entry, seed in zip(resolved.inputs, spread_seeds(event.seeds, len(resolved.inputs)), strict=True):
                draw_values(entry, seed)
    for entry in resolved.inputs:
        draw_values(entry, entry.seed)


def run_history(side: Side, resolved: Resolved, history: History) -> Record:
    """Run a history on one side, from seed 0 and fresh tensors."""
    return _Caller(side, resolved).run(history)


class _Caller:
    """The caller: the tensors it passes, the results it holds, the calls whose backward is pending."""

    def __init__(self, side: Side, resolved: Resolved) -> None:
        self.resolved = resolved
        self.layouts: list[str] = [entry.layout for entry in resolved.inputs]
        self.record = Record()
        self.held: list[tuple[int, int, torch.Tensor]] = []
        self.pending: list[tuple[int, list[torch.Tensor], list[torch.Tensor]]] = []
        self._seed(0)
        seeds = [entry.seed for entry in resolved.inputs]
        self.function, self.inputs = side(make_inputs(resolved.inputs, seeds, self.layouts))

    def run(self, history: History) -> Record:
        for event in history:
            self._step(event)
            if self.record.calls and self.record.calls[-1].error:
                return self.record
        while self.pending:
            self._step(Backward(0))
        contents = take_snapshots([value for _, _, value in self.held])
        self.record.held = [(call, place, seen) for (call, place, _), seen in zip(self.held, contents, strict=True)]
        return self.record

    def _step(self, event: Any) -> None:
        match event:
            case Call(seeds):
                self._call(seeds)
            case Reseed(seed):
                self._seed(seed)
            case Relayout(number, layout):
                self._relayout(number, layout)
            case Forget():
                self.held.clear()
            case Backward(number):
                self._backward(number)
            # While a backward may be pending, a caller's write would be its own error, not the function's.
            case Write(number, seed) if self.inputs and not self.resolved.needs_grad:
                self._overwrite(self.inputs[number % len(self.inputs)], seed)
            case Replace(number, seed) if self.inputs and not self.resolved.needs_grad:
                self._replace(number % len(self.inputs), seed)
            case Scribble(number, seed) if self.held and not self.resolved.needs_grad:
                self._overwrite(self.held[number % len(self.held)][2], seed)

    def _call(self, seeds: Sequence[int]) -> None:
        # As in eager PyTorch, a write to what a pending backward has saved would be the caller's own error.
        while self.pending and self.resolved.writes_inputs:
            self._backward(0)
        if seeds:
            self._new_arguments(seeds)
        number = len(self.record.calls)
        call = CallRecord()
        self.record.calls.append(call)
        try:
            results = list(self.function(*self.inputs))
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

    def _differentiable(self, results: list[Any]) -> list[torch.Tensor]:
        """Return the results to start backward from: computed ones that the program's types call differentiable."""
        types, count = self.resolved.types, len(self.inputs)
        computed = [n is not None and n >= count and _needs_grad(types[n]) for n in self.resolved.outputs]
        return [value for value, starts in zip(results, computed, strict=False) if starts and value.requires_grad]

    def _new_arguments(self, seeds: Sequence[int]) -> None:
        """Replace the arguments by new tensors; parameters and buffers stay."""
        entries = self.resolved.inputs
        made = make_inputs(entries, spread_seeds(seeds, len(entries)), self.layouts)
        self.inputs = [
            new if entry.role == "arg" else old for entry, new, old in zip(entries, made, self.inputs, strict=True)
        ]

    def _relayout(self, number: int, layout: str) -> None:
        """Change the layout of an argument that the program does not write through overlapping elements."""
        if not self.inputs:
            return
        position = number % len(self.inputs)
        written = {s.writes for s in self.resolved.statements}
        if layout != "expanded" or not any(n is not None for n in written):
            self.layouts[position] = layout

    def _overwrite(self, target: torch.Tensor, seed: int) -> None:
        if any(stride == 0 and size > 1 for size, stride in zip(target.shape, target.stride(), strict=True)):
            return
        with torch.no_grad():
            target.detach().copy_(_values_like(target, seed))

    def _replace(self, position: int, seed: int) -> None:
        target = self.inputs[position]
        target.data = torch.empty_like(target.data).copy_(_values_like(target, seed))

    def _backward(self, number: int) -> None:
        if not self.pending:
            return
        call, results, inputs = self.pending.pop(number % len(self.pending))
        cotangents = [_cotangent(result) for result in results]
        try:
            torch.autograd.backward(results, cotangents, retain_graph=False)
        except Exception as error:  # as in a call
            self.record.calls[call].error = f"backward: {first_line(error)}"
            self.record.calls[call].exception = error
            self.pending.clear()
            return
        self.record.gradients.append((call, take_snapshots([tensor.grad for tensor in inputs])))

    def _seed(self, seed: int) -> None:
        torch.manual_seed(seed)
        torch.cuda.manual_seed(seed)


def _values_like(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-4, 5, tuple(tensor.shape), generator=generator)
    return values.to(tensor.dtype).to(tensor.device)


def _cotangent(result: torch.Tensor) -> torch.Tensor:
    """Return weights that tell the elements apart and are exact in every dtype."""
    count = torch.arange(result.numel()) % 3 + 1
    return count.to(result.dtype).view(result.shape).to(result.device)


def _needs_grad(kind: ValueType) -> bool:
    return isinstance(kind, TensorType) and kind.needs_grad


def _position(state: torch.Tensor) -> bytes:
    return state.numpy().tobytes()
