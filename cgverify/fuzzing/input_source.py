"""Writes the caller's inputs as Python: how they are made, and what the caller does to them between calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cgverify.fuzzing.changes import decide_share
from cgverify.fuzzing.program import Event, Feed, Input, Replace, Scribble, Share, Write
from cgverify.fuzzing.resolution import Resolved
from cgverify.fuzzing.value_source import render_alias, render_integers, render_tensor
from cgverify.fuzzing.values import TensorType


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor that the caller holds: how it is called in the script and in words, and its type if it has one."""

    name: str
    label: str
    kind: TensorType | None = None


class InputWriter:
    """The inputs of a history as it goes on: their names, layouts and what they share memory with.

    Args:
        resolved: the program.
        traced_anew: whether what is called is traced anew when inputs come to share memory.
    """

    def __init__(self, resolved: Resolved, *, traced_anew: bool) -> None:
        self.resolved = resolved
        self.traced_anew = traced_anew
        self.entries: list[Input] = list(resolved.inputs)
        self.layouts: list[str] = [entry.layout for entry in resolved.inputs]
        self.names = [f"x{n}" for n in range(len(resolved.inputs))]

    def _overwrite(self, name: str, number: int, seed: int) -> str:
        return f"{name}.detach().copy_({self._integers(number, seed)})"

    def _integers(self, number: int, seed: int) -> str:
        kind = self.resolved.types[number]
        return render_integers(kind, seed) if isinstance(kind, TensorType) else "None"

    def make(self, seeds: list[int], positions: Iterable[int]) -> list[str]:
        """Return the lines that make the inputs at these positions, one seed for each input."""
        lines = []
        roomy = {e.alias_of for e, layout in zip(self.entries, self.layouts, strict=True) if layout == "offset"}
        for n in positions:
            entry, name = self.entries[n], self.names[n]
            if entry.alias_of is None:
                expression = render_tensor(entry, seeds[n], self.layouts[n], roomy=n in roomy)
            else:
                expression = render_alias(self.names[entry.alias_of], entry, self.layouts[n])
            lines.append(f"{name} = {expression}{'.requires_grad_()' if entry.trains else ''}")
        return lines

    def change(self, event: Event, kept: Sequence[Held]) -> list[str]:
        """Return what the caller does to tensors between calls; `kept`: the results it holds."""
        match event:
            case Write(number, seed):
                number %= len(self.names)
                return ["# the caller writes to what it passed", self._overwrite(self.names[number], number, seed)]
            case Replace(number, seed):
                name = self.names[number % len(self.names)]
                new = f"torch.empty_like({name}.data).copy_({self._integers(number % len(self.names), seed)})"
                return ["# the caller gives an input new storage", f"{name}.data = {new}"]
            case Scribble(number, seed) if kept:
                held = kept[number % len(kept)]
                values = "None" if held.kind is None else render_integers(held.kind, seed)
                line = f"{held.name}.detach().copy_({values})"
                return ["# the caller writes to a result it got", f"if 0 not in {held.name}.stride():", f"    {line}"]
            case Share(number, base, shifted):
                self._share(number % len(self.names), base % len(self.names), shifted)
            case Feed(number, result) if kept:
                return self._feed(number % len(self.names), kept[result % len(kept)])
        return []

    def relayout(self, number: int, layout: str) -> list[str]:
        """Note that an input is made with another layout from here on; no line says so."""
        if self.names and (layout != "expanded" or not self.resolved.writes):
            self.layouts[number % len(self.names)] = layout
        return []

    def _share(self, number: int, base: int, shifted: bool) -> None:
        entry = decide_share(self.resolved, self.entries, number, base, traced_anew=self.traced_anew)
        if entry is not None:
            self.entries[number] = entry
            if entry.alias_of is not None:
                self.layouts[number] = "offset" if shifted else "contiguous"

    def _feed(self, number: int, held: Held) -> list[str]:
        old, entry = self.resolved.types[number], self.entries[number]
        if not isinstance(old, TensorType) or held.kind is None or entry.role != "arg":
            return []
        if (old.shape, old.dtype, old.device) != (held.kind.shape, held.kind.dtype, held.kind.device):
            return []
        lines = ["# the caller passes a result", f"{self.names[number]} = {held.name}"]
        if not self.resolved.writes:
            return lines
        every = ", ".join([*self.names, held.name])
        return [lines[0], f"if 0 not in {held.name}.stride() and not shared([{every}]):", f"    {lines[1]}"]
