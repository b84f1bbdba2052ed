"""Measures what verification costs, as ratios: `python -m cgverify.survey.cost`.

Three tables, in processor time, best of several runs. First, for each entry of the corpus, the verifier's time on the
traces that `CUDAGraphTransform` emits, over the time of `thunder.jit` and the first call without it. Second, the
verifier's and the transform's time on chains of ops, over that of 1,000 ops. Third, their time on a chain of 5,000 ops
in one region, over that of Thunder's own transform on the same chain.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence

from cgverify.api import CUDAGraphTransform
from cgverify.checking import open_device
from cgverify.survey.corpus import CORPUS, Entry
from cgverify.verifier import verify, verify_backward

import thunder
import torch
from thunder.core.prims import PrimIDs
from thunder.core.proxies import variableify
from thunder.core.trace import TraceCtx, TraceTag, from_trace, tracectx
from thunder.core.transform_common import Transform
from thunder.transforms.cudagraph import CUDAGraphTransform as ThundersOwn

SIZES = (1000, 2000, 5000, 10000)
PEER_SIZE = 5000


class _Keeping(Transform):
    """Keeps the execution traces and leaves them as they are."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[TraceCtx] = []

    def transform_trace_post_optimization(self, trace: TraceCtx, **kwargs: object) -> TraceCtx:
        self.traces.append(trace)
        return trace


def main(arguments: Sequence[str] = ()) -> int:
    """Prints the tables."""
    with warnings.catch_warnings(), open_device("auto"):
        warnings.simplefilter("ignore")  # Thunder asks torch for shapes on fake tensors, which warns on some versions
        shares = [_print_share(entry) for entry in CORPUS]
        print(f"median {sorted(shares)[len(shares) // 2]:.1%}, highest {max(shares):.1%} of thunder.jit's own time\n")
        _print_growth()
        _print_peer()
    return 0


def _print_share(entry: Entry) -> float:
    compiling = min(_compile(entry)[0] for _ in range(2))
    pairs = _rewritten(_compile(entry)[1])
    checking = best_of(3, lambda: _verify_all(pairs))
    ops = sum(len(before.bound_symbols) for before, _ in pairs)
    print(f"{checking / compiling:6.1%}  {entry.name} ({ops} bound symbols)", flush=True)
    return checking / compiling


def _compile(entry: Entry) -> tuple[float, list[TraceCtx]]:
    """Seconds that `thunder.jit` and the first call take, and the execution traces."""
    function, inputs = entry.make()
    keeping = _Keeping()
    start = time.process_time()
    thunder.jit(function, transforms=[keeping], **entry.options)(*inputs)
    return time.process_time() - start, keeping.traces


def _rewritten(traces: list[TraceCtx]) -> list[tuple[TraceCtx, TraceCtx]]:
    transform = CUDAGraphTransform(verify=False)
    return [(trace, transform.transform_trace_post_optimization(trace)) for trace in traces]


def _verify_all(pairs: list[tuple[TraceCtx, TraceCtx]]) -> None:
    for position, pair in enumerate(pairs):
        if position and TraceTag.BACKWARD in pair[0].tags:
            verify_backward(*pair, forward=pairs[position - 1])
        else:
            verify(*pair)


def _print_growth() -> None:
    base: tuple[float, float] | None = None
    for size in SIZES:
        before = make_chain(size)
        ((_, after),) = _rewritten([before])
        checked = best_of(3, lambda pair=(before, after): verify(*pair))  # type: ignore[misc]
        rewritten = best_of(3, lambda trace=before: _rewritten([trace]))  # type: ignore[misc]
        base = base or (checked, rewritten)
        print(f"{size:6} ops: verifier {checked / base[0]:5.1f}x, transform {rewritten / base[1]:5.1f}x of 1,000 ops")


def _print_peer() -> None:
    before = make_chain(PEER_SIZE)
    ((_, after),) = _rewritten([before])
    (region,) = [bsym for bsym in after.bound_symbols if bsym.sym.is_fusion]
    executors = (*thunder.get_default_executors(), *thunder.get_always_executors())
    # Once: its time grows with the square of the number of ops.
    theirs = best_of(1, lambda: ThundersOwn().transform_trace_post_optimization(before, executors_list=executors))
    rewritten = best_of(3, lambda: _rewritten([before])) / theirs
    checked = best_of(3, lambda: verify(before, after)) / theirs
    print(
        f"{len(region.subsymbols):6} ops in one region: transform {rewritten:.3f}x, with verifier "
        f"{rewritten + checked:.3f}x of Thunder's own transform"
    )


def make_chain(size: int) -> TraceCtx:
    """An execution trace of `size` additions, each to the result of the one before."""
    keeping = _Keeping()
    thunder.jit(lambda x: x + 1.0, transforms=[keeping])(torch.ones(2, device="cuda"))
    (short,) = keeping.traces
    *head, add, last = [bsym for bsym in short.bound_symbols if bsym.sym.id is not PrimIDs.DEL]
    chain = from_trace(short)
    chain.bound_symbols = list(head)
    with tracectx(chain):
        value = add.args[0]
        for _ in range(size):
            value = add.sym(value, 1.0)
    chain.bound_symbols.append(last.from_bsym_swap_proxies({variableify(add.output): value}))
    return chain


def best_of(runs: int, act: Callable[[], object]) -> float:
    """The least processor time of several runs, in seconds."""
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        act()
        seconds.append(time.process_time() - start)
    return min(seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
