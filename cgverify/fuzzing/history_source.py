"""Writes a call history as the straight-line Python that a caller would run; mirrors
:mod:`cgverify.fuzzing.execution`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cgverify.fuzzing.arguments import DTYPES, draw_values
from cgverify.fuzzing.execution import spread_seeds
from cgverify.fuzzing.program import (
    Backward,
    Call,
    Event,
    Forget,
    History,
    Input,
    Relayout,
    Replace,
    Reseed,
    Scribble,
    Write,
)
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.values import TORCH_DTYPES, TensorType

import torch


class HistoryWriter:
    """Writes the body of `run(make, seen)`.

    Args:
        resolved: the program.
        subject: what `make` is given: `program` (a function or a module class) or `build` (which builds the trace).
        guilty: number of the call that shows the failure, which gets a comment; None for none.
    """

    def __init__(self, resolved: Resolved, subject: str, guilty: int | None) -> None:
        self.resolved = resolved
        self.subject = subject
        self.guilty = guilty
        self.layouts: list[str] = [entry.layout for entry in resolved.inputs]
        self.names = [f"x{n}" for n in range(len(resolved.inputs))]
        self.owned = [n for n, entry in enumerate(resolved.inputs) if entry.role != "arg" and subject == "program"]
        self.calls = 0
        self.held: list[str] = []
        self.pending: list[int] = []

    def write(self, history: History) -> list[str]:
        """Return the lines, not indented."""
        lines = ["torch.manual_seed(0)", "torch.cuda.manual_seed(0)", *self._begin()]
        for event in history:
            lines += ["", *self._event(event)]
        while self.pending:
            lines += ["", *self._backward(0)]
        if self.held:
            lines += ["", "# what is still held at the end"]
            for name in self.held:
                call, place = name.removeprefix("r").rstrip("]").split("[")
                lines.append(f'seen.append(("result {place} of call {call}, at the end", content({name})))')
        return lines

    def _begin(self) -> list[str]:
        if not self.owned:
            return [f"function = make({self.subject})", *self._first_arguments()]
        seeds = [entry.seed for entry in self.resolved.inputs]
        members = ", ".join(f"x{n}.detach()" for n in self.owned)
        lines = [*self._make(seeds, range(len(self.names))), f"module = program({members})", "function = make(module)"]
        return [*lines, *(f"x{n} = module.x{n}" for n in self.owned)]

    def _first_arguments(self) -> list[str]:
        return self._make([entry.seed for entry in self.resolved.inputs], range(len(self.names)))

    def _event(self, event: Event) -> list[str]:
        quiet = self.resolved.needs_grad
        match event:
            case Call(seeds):
                return self._call(seeds)
            case Reseed(seed):
                return [f"torch.manual_seed({seed})", f"torch.cuda.manual_seed({seed})"]
            case Relayout(number, layout):
                return self._relayout(number, layout)
            case Forget():
                self.held.clear()
                return ["# the caller drops the results it holds", *(f"del r{n}" for n in range(self.calls)), ""][:-1]
            case Backward(number) if self.pending:
                return self._backward(number)
            case Write(number, seed) if self.names and not quiet:
                return [
                    "# the caller writes to what it passed",
                    self._overwrite(self.names[number % len(self.names)], seed),
                ]
            case Replace(number, seed) if self.names and not quiet:
                name = self.names[number % len(self.names)]
                kind = self.resolved.types[number % len(self.names)]
                new = f"torch.empty_like({name}.data).copy_({_integers(kind, seed)})"
                return ["# the caller gives an input new storage", f"{name}.data = {new}"]
            case Scribble(number, seed) if self.held and not quiet:
                return [
                    "# the caller writes to a result it got",
                    self._overwrite(self.held[number % len(self.held)], seed),
                ]
        return []

    def _call(self, seeds: tuple[int, ...]) -> list[str]:
        early: list[str] = []
        while self.pending and self.resolved.writes_inputs:
            early += self._backward(0)
        number = self.calls
        self.calls += 1
        mark = "  <- this call shows it" if number == self.guilty else ""
        lines = [*early, f"# call {number}{'' if seeds else ', with the same tensors'}{mark}"]
        if seeds:
            fresh = [n for n, entry in enumerate(self.resolved.inputs) if entry.role == "arg"]
            lines += self._make(spread_seeds(seeds, len(self.names)), fresh)
        passed = [name for n, name in enumerate(self.names) if n not in self.owned]
        lines.append(f"r{number} = function({', '.join(passed)})")
        lines.append(f"seen += look({number}, [{', '.join(self.names)}], r{number})")
        outputs = self._outputs()
        tensors = [n for n, value in enumerate(outputs) if self._is_tensor(value)]
        self.held += [f"r{number}[{n}]" for n in tensors]
        if self._differentiable():
            self.pending.append(number)
            lines.append(f"inputs{number} = [{', '.join(self.names)}]")
        return lines

    def _outputs(self) -> list[int | None]:
        """Return the values returned: as in the program, or, for a trace, without None and repeats."""
        outputs = list(self.resolved.outputs)
        return outputs if self.subject == "program" else list(dict.fromkeys(n for n in outputs if n is not None))

    def _is_tensor(self, number: int | None) -> bool:
        return number is not None and isinstance(self.resolved.types[number], TensorType)

    def _differentiable(self) -> list[int]:
        """Return the places of the results that backward starts from."""
        found = []
        for place, number in enumerate(self._outputs()):
            kind = None if number is None else self.resolved.types[number]
            if number is not None and number >= len(self.names) and isinstance(kind, TensorType) and kind.needs_grad:
                found.append(place)
        return found if self.subject == "program" else []

    def _backward(self, number: int) -> list[str]:
        call = self.pending.pop(number % len(self.pending))
        lines = [
            f"starts = [r for r in ({', '.join(f'r{call}[{n}]' for n in self._differentiable())},) if r.requires_grad]"
        ]
        weights = "[(torch.arange(r.numel()) % 3 + 1).to(r.dtype).view(r.shape).to(r.device) for r in starts]"
        lines.append(f"torch.autograd.backward(starts, {weights})")
        grads = f'((f"gradient of input {{n}} of call {call}", content(x.grad)) for n, x in enumerate(inputs{call}))'
        return [f"# backward of call {call}", *lines, f"seen += {grads}"]

    def _relayout(self, number: int, layout: str) -> list[str]:
        if self.names:
            writes = any(statement.writes is not None for statement in self.resolved.statements)
            if layout != "expanded" or not writes:
                self.layouts[number % len(self.names)] = layout
        return []

    def _overwrite(self, name: str, seed: int) -> str:
        values = f"torch.randint(-4, 5, tuple({name}.shape), generator=torch.Generator().manual_seed({seed}))"
        return f"{name}.detach().copy_({values}.to({name}.dtype))"

    def _make(self, seeds: list[int], positions: Iterable[int]) -> list[str]:
        lines = []
        for n in positions:
            entry, name = self.resolved.inputs[n], self.names[n]
            if entry.alias_of is None:
                expression = _place(entry, seeds[n], self.layouts[n])
            else:
                base = self.names[entry.alias_of]
                expression = f"{base}.detach().view({entry.shape!r} if {base}.is_contiguous() else {base}.shape)"
            lines.append(f"{name} = {expression}{'.requires_grad_()' if entry.trains else ''}")
        return lines


def _place(entry: Input, seed: int, layout: str) -> str:
    """Return the expression for an input's values in its layout; see cgverify.fuzzing.arguments."""
    values = draw_values(entry, seed)
    rank = len(entry.shape)
    to = f'.to("{entry.device}")'
    made = _literal(values, entry)
    if layout == "transposed" and rank >= 2:
        return f"{made}.transpose(-2, -1).contiguous(){to}.transpose(-2, -1)"
    if layout == "strided" and rank >= 1:
        return f"{made}.repeat_interleave(2).view({(*entry.shape, 2)!r}){to}[..., 0]"
    if layout == "offset":
        return f"torch.nn.functional.pad({made}.flatten(), (1, 0)){to}[1:].view({entry.shape!r})"
    if layout == "expanded" and rank >= 1 and entry.shape[0] > 0:
        return f"{made}[:1]{to}.expand({entry.shape!r})"
    return f"{made}{to}"


def _literal(values: torch.Tensor, entry: Input) -> str:
    text: Any = values.tolist()
    return f"torch.tensor({text!r}, dtype={TORCH_DTYPES[entry.dtype]})"


def _integers(kind: Any, seed: int) -> str:
    values = torch.randint(-4, 5, kind.shape, generator=torch.Generator().manual_seed(seed)).to(DTYPES[kind.dtype])
    return f"torch.tensor({values.tolist()!r}, dtype={TORCH_DTYPES[kind.dtype]})"
