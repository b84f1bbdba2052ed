"""The corpus of real functions: right rewrites are proved without a word, and broken ones are caught by name."""

from __future__ import annotations

import gc
import time

from cgverify.fuzzing.mutators import MUTATORS, Mutator
from cgverify.verifier import verify, verify_pair
from tests.builders import TraceBuilder
from tests.cases.build import fuse
from tests.unit.verifier.conftest import Pair
from tests.unit.verifier.corpus import CORPUS

import pytest
from thunder.core.trace import TraceCtx


def test_corpus_is_large(pairs: list[Pair]) -> None:
    """There are at least 40 functions, and most traces have a region."""
    assert len({entry.function for entry in CORPUS}) >= 40
    regions = [pair for pair in pairs if any(b.sym.name.startswith("CUDAGraph") for b in pair.after.bound_symbols)]
    assert len(regions) >= 0.9 * len(pairs)


@pytest.mark.parametrize("corpus", ["pairs", "fused_pairs"])
def test_no_false_alarm(corpus: str, request: pytest.FixtureRequest) -> None:
    """No rewrite of the corpus gets a single diagnostic, nor does a trace compared with itself, fused or not."""
    alarms = {}
    for pair in request.getfixturevalue(corpus):
        for after in (pair.after, pair.before):
            report = verify(pair.before, after)
            if report.diagnostics:
                alarms[pair.name] = report.render()
    assert alarms == {}


def test_pairs_fit(pairs: list[Pair]) -> None:
    """Each forward trace with its backward trace is proved as a pair."""
    by_name = {pair.name: pair for pair in pairs}
    backward = [pair for pair in pairs if pair.name.endswith("/backward")]
    assert len(backward) >= 10
    for second in backward:
        first = by_name[second.name.removesuffix("/backward")]
        report = verify_pair(forward=(first.before, first.after), backward=(second.before, second.after))
        assert report.diagnostics == (), report.render()


@pytest.mark.parametrize("mutator", MUTATORS, ids=lambda mutator: mutator.name)
def test_mutator_caught(mutator: Mutator, pairs: list[Pair]) -> None:
    """Wherever the mutator applies, the verifier reports its code; and it applies to the corpus at least once."""
    verdicts = {pair.name: mutator.catches(pair.before, pair.after) for pair in pairs}
    applied = {name: caught for name, caught in verdicts.items() if caught is not None}
    assert applied
    assert [name for name, caught in applied.items() if not caught] == []


def _long(ops: int) -> tuple[TraceCtx, TraceCtx]:
    """A chain of ops, in one region but for its last op."""
    b = TraceBuilder("x", "y")
    value = b["x"]
    for _ in range(ops):
        value = b.op("add", value, b["y"])
    before = b.done(value)
    return before, fuse(before, 2, ops)


def test_linear() -> None:
    """Ten times the ops take at most fifteen times the processor time.

    Best of three, without the garbage collector: its passes over all that was imported come at any moment.
    """
    seconds = []
    gc.disable()
    try:
        for ops in (200, 2000):
            before, after = _long(ops)
            runs = []
            for _ in range(3):
                start = time.process_time()
                assert verify(before, after).ok
                runs.append(time.process_time() - start)
            seconds.append(min(runs))
    finally:
        gc.enable()
    assert seconds[1] <= 15 * seconds[0], seconds
