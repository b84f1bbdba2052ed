"""Functions and transforms as a user would hand them to ``cgverify check``."""

from __future__ import annotations

import functools
import signal
import sys
from typing import Any

import torch
from thunder.core.prims import PrimIDs
from thunder.core.trace import TraceCtx, from_trace
from thunder.core.transform_common import Transform


def step(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Differentiable, so that Thunder makes a backward trace too."""
    return torch.relu(x - w) * w


def step_inputs(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The arguments of ``step``."""
    w = torch.full((2, 3), 0.5, device=device, requires_grad=True)
    return torch.ones(2, 3, device=device), w


def difference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Takes its arguments from ``--inputs``."""
    return x - y


def branches(x: torch.Tensor) -> torch.Tensor:
    """Thunder cannot compile it: the branch depends on a value."""
    return x if bool(x.sum() > 0) else -x


def branches_inputs(device: str) -> tuple[torch.Tensor]:
    """The arguments of ``branches``."""
    return (torch.ones(2, device=device),)


def forgets_a_comma(x: torch.Tensor) -> torch.Tensor:
    """Its inputs are no tuple."""
    return x


def forgets_a_comma_inputs(device: str) -> torch.Tensor:
    """What is left of ``(torch.ones(2),)`` without the comma."""
    return torch.ones(2, device=device)


class KeepsAll(Transform):
    """Right: leaves every value alive to the end, which costs memory and changes nothing else."""

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        trace = from_trace(computation_trace)
        trace.bound_symbols = [b for b in computation_trace.bound_symbols if b.sym.id is not PrimIDs.DEL]
        return trace


class SwapsArguments(Transform):
    """Wrong: computes ``y - x`` for ``x - y``."""

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        trace = from_trace(computation_trace)
        trace.bound_symbols = [
            b.from_bsym(args=(b.args[1], b.args[0], *b.args[2:])) if b.sym.name == "sub" else b
            for b in computation_trace.bound_symbols
        ]
        return trace


class EditsInPlace(Transform):
    """Wrong, and hides it: changes the trace that it was given."""

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        for bsym in computation_trace.bound_symbols:
            if bsym.sym.name == "sub":
                bsym.args = (bsym.args[1], bsym.args[0], *bsym.args[2:])
        return computation_trace


class Fails(Transform):
    """Raises on every trace."""

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        raise RuntimeError("no idea")


not_a_transform = 3


class Exits(Transform):
    """Ends the process, with the exit code of success."""

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        raise SystemExit(0)


class ReturnsNothing(Transform):
    """Forgets its result."""

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: Any) -> None:
        return None


def needs_more(option: int) -> Transform:
    """A factory that cannot be called without arguments."""
    return Transform()


def exits(x: torch.Tensor) -> torch.Tensor:
    """Its inputs end the process."""
    return x


def exits_inputs(device: str) -> tuple[torch.Tensor]:
    """Ends the process instead of making arguments."""
    raise SystemExit(0)


def talks(x: torch.Tensor) -> torch.Tensor:
    """Its inputs print."""
    return x + 1


def talks_inputs(device: str) -> tuple[torch.Tensor]:
    """The arguments of ``talks``, made with much ado."""
    print("making arguments")
    return (torch.ones(2, device=device),)


def spectrum(x: torch.Tensor) -> torch.Tensor:
    """Nothing of it can be captured: Thunder does not know the op."""
    return torch.fft.fft(x)


spectrum_inputs = branches_inputs


def gives_up(x: torch.Tensor) -> torch.Tensor:
    """Ends the process when it is called."""
    sys.exit(3)


gives_up_inputs = branches_inputs


def is_stopped(x: torch.Tensor) -> torch.Tensor:
    """Somebody presses Ctrl-C while it runs."""
    signal.raise_signal(signal.SIGINT)
    return x


is_stopped_inputs = branches_inputs


def takes_two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Its inputs are too few."""
    return x + y


takes_two_inputs = branches_inputs


@functools.wraps(takes_two)
def takes_one(x: torch.Tensor) -> torch.Tensor:
    """A decorator's work: it says that it takes two, and takes one."""
    return takes_two(x, x)


takes_one_inputs = branches_inputs
