"""The corpus, compiled once: each function's traces before and after the transform."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from unittest import mock

from cgverify.api import CUDAGraphTransform
from cgverify.emulation import EmulatedCUDA
from tests.unit.verifier.corpus import CORPUS

import pytest
import thunder
import torch
from thunder.core.trace import TraceCtx
from thunder.core.transform_common import Transform


@dataclass(frozen=True)
class Pair:
    """One trace of one function, before and after.

    Attributes:
        name: the entry's name, with `/backward` for its backward trace.
    """

    name: str
    before: TraceCtx
    after: TraceCtx


class Recorder(Transform):  # type: ignore[misc]
    """Keeps what Thunder hands to a transform after its optimisations, and hands it back unchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[TraceCtx] = []

    def transform_trace_post_optimization(self, computation_trace: TraceCtx, **kwargs: object) -> TraceCtx:
        """Records the trace."""
        self.traces.append(computation_trace)
        return computation_trace


@pytest.fixture(scope="session")
def pairs() -> list[Pair]:
    """Every trace of the corpus with its rewrite, unverified."""
    return _compiled()


@pytest.fixture(scope="session")
def fused_pairs() -> list[Pair]:
    """The same, each trace fused by the torch.compile executor; nothing is compiled: only traces are looked at."""
    with mock.patch.object(torch, "compile", lambda function, **_: function):
        return _compiled(executors=["torchcompile"])


def _compiled(**options: object) -> list[Pair]:
    found = []
    with EmulatedCUDA(), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Thunder asks torch for shapes on fake tensors, which warns on some versions
        for entry in CORPUS:
            recorder = Recorder()
            thunder.jit(entry.function, transforms=[recorder], **options)(*entry.arguments())
            transform = CUDAGraphTransform(verify=False)
            for position, before in enumerate(recorder.traces):
                after = transform.transform_trace_post_optimization(before)
                found.append(Pair(entry.name + ("/backward" if position else ""), before, after))
    return found
