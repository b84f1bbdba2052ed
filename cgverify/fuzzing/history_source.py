"""Writes a call history as the straight-line Python that a caller would run; mirrors :mod:`cgverify.fuzzing.caller`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from cgverify.fuzzing.caller import other_function, spread_seeds
from cgverify.fuzzing.input_source import Held, InputWriter
from cgverify.fuzzing.program import (
    Backward,
    Call,
    Collect,
    Draw,
    Event,
    Forget,
    History,
    Input,
    Other,
    Relayout,
    Reseed,
    Stream,
)
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.surroundings import in_autocast, in_capture, in_thread, on_stream
from cgverify.fuzzing.value_source import render_tensor
from cgverify.fuzzing.values import TORCH_DTYPES, TensorType


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
        self.inputs = InputWriter(resolved, traced_anew=subject == "program")
        self.names = self.inputs.names
        self.owned = [n for n, entry in enumerate(resolved.inputs) if entry.role != "arg" and subject == "program"]
        self.calls = 0
        self.held: list[Held] = []
        self.gradients: list[str] = []
        self.results: list[int] = []
        self.pending: list[int] = []
        self.stream = 0
        self.made: set[str] = set()
        self.helpers: list[Callable[..., Any]] = []

    def write(self, history: History) -> list[str]:
        """Return the lines, not indented."""
        lines = ["torch.manual_seed(0)", "torch.cuda.manual_seed(0)", *self._begin()]
        for event in history:
            lines += ["", *self._event(event)]
        while self.pending:
            lines += ["", *self._backward(Backward(0))]
        if self.held or self.gradients:
            lines += ["", "# what is still held at the end"]
            lines += [f'seen.append(("{held.label}, at the end", content({held.name})))' for held in self.held]
            for name in self.gradients:
                lines.append(f'seen += ((f"{name}[{{n}}], at the end", content(g)) for n, g in enumerate({name}))')
        return [*self._helper_lines(), *lines]

    def _helper_lines(self) -> list[str]:
        """Return the definitions of what the lines call: imports and functions."""
        imports = {in_thread: ["import threading"]}
        lines = [line for helper in self.helpers for line in imports.get(helper, [])]
        for helper in self.helpers:
            lines += [*_plain_source(helper).splitlines(), ""]
        return lines

    def _begin(self) -> list[str]:
        seeds = [entry.seed for entry in self.resolved.inputs]
        made = self.inputs.make(seeds, range(len(self.names)))
        if not self.owned:
            return [f"function = make({self.subject})", *made]
        members = ", ".join(f"x{n}.detach()" for n in self.owned)
        lines = [
            *self.inputs.make(seeds, range(len(self.names))),
            f"module = program({members})",
            "function = make(module)",
        ]
        return [*lines, *(f"x{n} = module.x{n}" for n in self.owned)]

    def _event(self, event: Event) -> list[str]:
        match event:
            case Call():
                return self._call(event)
            case Backward() if self.pending:
                return self._backward(event)
            case Reseed(seed):
                return [f"torch.manual_seed({seed})", f"torch.cuda.manual_seed({seed})"]
            case Draw():
                return ["# the caller draws too", 'torch.rand(3, device="cuda")']
            case Relayout(number, layout):
                return self.inputs.relayout(number, layout)
            case Stream(number):
                self.stream = number % 3
            case Other(seed, drop) if self.subject == "program":
                return self._call_other(seed, drop)
            case Collect():
                return ["import gc", "gc.collect(1)"]
            case Forget():
                return self._forget()
            case _ if self.names and not self.resolved.needs_grad:
                return self.inputs.change(event, self.held)
        return []

    def _call(self, event: Call) -> list[str]:
        lines: list[str] = []
        while self.pending and self.resolved.writes_inputs:
            lines += self._backward(Backward(0))
        number = self.calls
        self.calls += 1
        mark = "  <- this call shows it" if number == self.guilty else ""
        lines.append(f"# call {number}{'' if event.seeds else ', with the same tensors'}{mark}")
        if event.seeds:
            fresh = [n for n, entry in enumerate(self.resolved.inputs) if entry.role == "arg"]
            lines += self.inputs.make(spread_seeds(event.seeds, len(self.names)), fresh)
        lines += self._invoke(event, number)
        lines.append(f"seen += look({number}, [{', '.join(self.names)}], r{number})")
        self.results.append(number)
        for place, value in enumerate(self._outputs()):
            kind = None if value is None else self.resolved.types[value]
            if isinstance(kind, TensorType):
                self.held.append(Held(f"r{number}[{place}]", f"result {place} of call {number}", kind))
        if self._differentiable() and not event.quiet:
            self.pending.append(number)
            lines.append(f"inputs{number} = [{', '.join(self.names)}]")
        return lines

    def _invoke(self, event: Call, number: int) -> list[str]:
        """Write the call itself, where and how the event says."""
        passed = ", ".join(name for n, name in enumerate(self.names) if n not in self.owned)
        lines: list[str] = []
        function = "function"
        if event.autocast:
            function = f"{self._helper(in_autocast)}({TORCH_DTYPES[event.autocast]}, function)"
        call = f"{function}({passed})"
        if event.captured and number > 0 and self.resolved.may_be_captured:
            lines.append(f"graph{number} = torch.cuda.CUDAGraph()")
            call = f"{self._helper(in_capture)}(graph{number}, {function}, [{passed}])"
        elif event.thread:
            call = f"{self._helper(in_thread)}({function}, [{passed}])"
        elif self.stream:
            lines += self._once(f"stream{self.stream}", "torch.cuda.Stream()")
            call = f"{self._helper(on_stream)}(stream{self.stream}, {function}, [{passed}])"
        if event.quiet:
            return [*lines, "with torch.no_grad():", f"    r{number} = {call}"]
        return [*lines, f"r{number} = {call}"]

    def _helper(self, function: Callable[..., Any]) -> str:
        if function not in self.helpers:
            self.helpers.append(function)
        return function.__name__

    def _once(self, name: str, expression: str) -> list[str]:
        if name in self.made:
            return []
        self.made.add(name)
        return [f"{name} = {expression}"]

    def _outputs(self) -> list[int | None]:
        """Return the values returned: as in the program, or, for a trace, without None and repeats."""
        outputs = list(self.resolved.outputs)
        return outputs if self.subject == "program" else list(dict.fromkeys(n for n in outputs if n is not None))

    def _differentiable(self) -> list[int]:
        """Return the places of the results that backward starts from."""
        found = []
        for place, number in enumerate(self._outputs()):
            kind = None if number is None else self.resolved.types[number]
            if number is not None and number >= len(self.names) and isinstance(kind, TensorType) and kind.needs_grad:
                found.append(place)
        return found if self.subject == "program" else []

    def _backward(self, event: Backward) -> list[str]:
        place = event.call % len(self.pending)
        call = self.pending[place] if event.keep else self.pending.pop(place)
        results = ", ".join(f"r{call}[{n}]" for n in self._differentiable())
        lines = [f"# backward of call {call}", f"starts = [r for r in ({results},) if r.requires_grad]"]
        if event.only is not None:
            lines.append(f"starts = [starts[{event.only} % len(starts)]]")
        weights = "[(torch.arange(r.numel()) % 3 + 1).to(r.dtype).view(r.shape).to(r.device) for r in starts]"
        lines.append(f"torch.autograd.backward(starts, {weights}{', retain_graph=True' if event.keep else ''})")
        name = f"gradients{len(self.gradients)}"
        self.gradients.append(name)
        lines.append(f"{name} = [x.grad for x in inputs{call}]")
        seen = f'((f"gradient of input {{n}} of call {call}", content(g)) for n, g in enumerate({name}))'
        return [*lines, f"seen += {seen}"]

    def _forget(self) -> list[str]:
        gone = [f"r{n}" for n in self.results if n not in self.pending] + self.gradients
        self.results = [n for n in self.results if n in self.pending]
        self.held.clear()
        self.gradients.clear()
        return ["# the caller drops the results it holds", *(f"{name} = None" for name in gone)]

    def _call_other(self, seed: int, drop: bool) -> list[str]:
        if drop:
            self.made.discard("other")
            return ["# the caller drops its other function", "other = None"]
        lines = self._once("other", f"make({self._helper(other_function)})")
        name = f"also{len(self.made)}_{self.calls}_{len(self.held)}"
        self.held.append(Held(name, "result of the other function", TensorType((3,), "f32", "cuda", 0)))
        values = render_tensor(Input(shape=(3,)), seed, "contiguous")
        return ["# the caller calls another function", *lines, f"{name} = other({values})"]


def _plain_source(function: Callable[..., Any]) -> str:
    """Return a function's source without annotations."""
    tree = ast.parse(inspect.getsource(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [
                ast.Assign([n.target], n.value, lineno=n.lineno) if isinstance(n, ast.AnnAssign) and n.value else n
                for n in node.body
            ]
    return ast.unparse(tree)
