"""Group G: how traces are put together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cgverify import CUDAGraphTransform, verify
from cgverify.fuzzing import edits
from cgverify.verifier.contracts import CGVERIFY
from tests.builders import TraceBuilder
from tests.cases.build import chain, fuse

import pytest
import thunder
import torch
from thunder.core.proxies import FutureTensorProxy
from thunder.core.trace import TraceCtx, tracectx


def rewritten(before: TraceCtx) -> TraceCtx:
    """What the transform makes of a trace, with a proof."""
    after = CUDAGraphTransform(verify=False).rewrite(before)
    report = verify(before, after)
    assert report.ok, report.render()
    return after


def inside(after: TraceCtx) -> list[str]:
    """Names of the ops in regions."""
    return [op.sym.name for site in edits.find_regions(after) for op in edits.computing(site.body.bound_symbols)]


def outside(after: TraceCtx) -> list[str]:
    """Names of the ops between regions."""
    return [op.sym.name for op in edits.computing(after.bound_symbols) if not op.sym.is_fusion]


def three_calls(function: Any, *inputs: torch.Tensor, transform: CUDAGraphTransform | None = None) -> list[Any]:
    """The results of three calls, of which the second captures and the third replays."""
    jitted = thunder.jit(function, transforms=[transform or CUDAGraphTransform()])
    return [jitted(*inputs) for _ in range(3)]


def test_G01_names_live_as_long_as_they_are_used() -> None:
    """Short-lived values around a host read: the rewrite is proved, and a DEL too early is not."""
    b = TraceBuilder("x")
    total = b.op("sum", b["x"], None, False, dtype=None)
    number = b.op("item", total)
    before = b.done(b.op("add", b.op("exp", b["x"]), total), number)
    after = rewritten(before)
    early = edits.replaced(after, 1, edits.deleted(b["x"]), after.bound_symbols[1])
    assert "CG102" in verify(before, early).codes


def test_G02_effects_keep_their_order() -> None:
    """Two writes and the reads between them stay in order inside the region."""
    b = TraceBuilder("x", "y")
    first = b.op("sum", b["x"])
    b.op("copy_", b["y"], b["x"], grad_enabled=False)
    second = b.op("sum", b["x"])
    b.op("copy_", b.op("exp", b["x"]), b["x"], grad_enabled=False)
    assert inside(rewritten(b.done(first, second))) == ["sum", "copy_", "sum", "exp", "copy_"]


def test_G03_values_used_by_return_alone_leave_the_region() -> None:
    """A value that only a nested RETURN uses is an output of the region."""
    b = TraceBuilder("x")
    hidden = b.op("exp", b["x"])
    after = rewritten(b.done({"a": [(hidden,)]}, b.op("mul", hidden, 2.0)))
    (site,) = edits.find_regions(after)
    assert hidden.name in [proxy.name for proxy in site.bsym.flat_proxy_outs]


@pytest.mark.usefixtures("cuda")
def test_G04_lists_stay_outside() -> None:
    """The backward trace takes its lists apart and clears them outside the regions."""
    jitted = thunder.jit(lambda x: (x.sin() * x.cos()).exp(), transforms=[CUDAGraphTransform()])
    jitted(torch.ones(3, device="cuda", requires_grad=True)).sum().backward()
    after = thunder.last_backward_traces(jitted)[-1]
    assert "clear_mutable_collection" in outside(after)
    assert "clear_mutable_collection" not in inside(after)
    assert len(inside(after)) > 1


def test_G05_two_builds_are_equal() -> None:
    """Two rewrites of one trace print alike, but for the line that holds the time."""
    b = TraceBuilder("x", "y", "z")
    parts = [b.op("mul", b[name], 2.0) for name in "xyz"]
    before = b.done(b.op("item", b.op("sum", parts[0], None, False, dtype=None)), *map(lambda p: b.op("exp", p), parts))
    texts = [str(rewritten(before)).splitlines()[1:] for _ in range(2)]
    assert texts[0] == texts[1]


def test_G06_nothing_crosses_a_barrier() -> None:
    """What the barrier reads is computed before it, what reads its result after it, the rest anywhere."""
    b = TraceBuilder("x")
    total = b.op("sum", b["x"], None, False, dtype=None)
    number = b.op("item", total)
    free = b.op("add", b["x"], 1.0)
    after = rewritten(b.done(b.op("pow", free, number)))
    names = [op.sym.name for op in edits.computing(after.bound_symbols)]
    assert names.index("CUDAGraph0") < names.index("item") < names.index("pow")
    assert outside(after) == ["item", "pow"]


@pytest.mark.usefixtures("cuda")
def test_G07_equal_expressions_around_a_write() -> None:
    """`cos` before and after a write are two ops, with two results."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = torch.cos(x)
        x.add_(1.0)
        return before, torch.cos(x)

    x = torch.zeros(2, device="cuda")
    found = three_calls(function, x)
    expected = [torch.cos(torch.full((2,), float(value))) for value in range(4)]
    for call, (before, after) in enumerate(found):
        assert torch.allclose(before.cpu(), expected[call])
        assert torch.allclose(after.cpu(), expected[call + 1])


@pytest.mark.usefixtures("cuda")
def test_G08_one_transform_for_traces_of_every_shape() -> None:
    """One transform serves functions that save nothing, one value, several, and a number, compiled in turn."""
    transform = CUDAGraphTransform()
    functions = [lambda x: x + 1.0, lambda x: x.sin(), lambda x: x * x.exp(), lambda x: x * x.sum().item()]
    slopes = [1.0, float(torch.cos(torch.tensor(1.0))), 2 * float(torch.exp(torch.tensor(1.0))), 3.0]
    jitted = [thunder.jit(function, transforms=[transform]) for function in functions]
    for _ in range(3):
        leaves = [torch.ones(3, device="cuda", requires_grad=True) for _ in functions]
        results = [run(x) for run, x in zip(jitted, leaves, strict=True)]
        for x, result, slope in zip(leaves, results, slopes, strict=True):
            result.sum().backward()
            assert x.grad is not None
            assert torch.allclose(x.grad.cpu(), torch.full((3,), slope))


@pytest.mark.usefixtures("cuda")
def test_G09_unmarked_parameters_are_copied() -> None:
    """A parameter passed as a plain argument is read anew on each call, wherever it lies."""
    jitted = thunder.jit(lambda x, w: x * w, transforms=[CUDAGraphTransform()])
    x = torch.ones(2, device="cuda")
    found = [jitted(x, torch.full((2,), value, device="cuda")).tolist() for value in (1.0, 2.0, 3.0, 4.0)]
    assert found == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]


@pytest.mark.usefixtures("cuda")
def test_G10_marked_parameters_may_move() -> None:
    """A parameter whose storage is replaced is read at its new place; a runtime that does not look is refused."""
    module = torch.nn.Linear(2, 1, bias=False).to("cuda").requires_grad_(False)
    jitted = thunder.jit(module, transforms=[CUDAGraphTransform()])
    x = torch.ones(1, 2, device="cuda")
    for value in (1.0, 1.0, 1.0, 2.0, 3.0):
        module.weight.data = torch.full((1, 2), value, device="cuda")
        assert jitted(x).item() == 2 * value
    before = chain()
    unguarded = replace(CGVERIFY, name="unguarded", guards_addresses=False)
    assert "CG301" in verify(before, fuse(before, 2, 3, static={"x"}), contract=unguarded).codes


def test_G11_collectives_stay_outside() -> None:
    """An asynchronous collective, its future and its wait are in no region."""
    b = TraceBuilder("x")
    value = b.op("exp", b["x"])
    with tracectx(b.trace):
        future = FutureTensorProxy(like=value)
        waited = b.op("exp", b["x"]).replace(name="waited")
    b.trace.bound_symbols.append(edits.unknown_op("torch_all_reduce_prim_impl", value, future))
    b.trace.bound_symbols.append(edits.unknown_op("torch_wait_prim_impl", future, waited))
    after = rewritten(b.done(b.op("mul", waited, 2.0), b.op("mul", value, 2.0)))
    assert outside(after) == ["torch_all_reduce_prim_impl", "torch_wait_prim_impl"]


@pytest.mark.usefixtures("cuda")
def test_G12_what_is_not_graphed_is_told() -> None:
    """The report names the op left out and why; the statistics show graphs and replays."""
    transform = CUDAGraphTransform()
    three_calls(lambda x: x * 2 + x.sum().item(), torch.ones(3, device="cuda"), transform=transform)
    text = transform.report().render()
    assert "left out: item: " in text
    assert transform.stats().graphs > 0
