"""`Verified`, `verify_each` and `assert_verified`: right transforms pass, wrong ones are named, at every stage."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Iterator
from typing import Any

from cgverify import CUDAGraphTransform, VerificationError, Verified, assert_verified, verify_each
from cgverify.emulation import EmulatedCUDA
from tests.cases.build import chain, without

import pytest
import thunder
import torch
from thunder.core.trace import TraceCtx, from_trace
from thunder.core.transform_common import Transform
from thunder.executors.torchex import ex as torch_executor


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    """A device for every test."""
    with EmulatedCUDA():
        yield


class Halving(Transform):  # type: ignore[misc]
    """Makes a division of each multiplication in an execution trace."""

    def transform_trace_post_optimization(self, trace: TraceCtx, **kwargs: Any) -> TraceCtx:
        """The trace with `mul` called `true_divide`."""
        made = from_trace(trace)
        divide = torch_executor.opmap["true_divide"]
        made.bound_symbols = [b.from_bsym(sym=divide) if b.sym.name == "mul" else b for b in trace.bound_symbols]
        return made


class Tripling(Transform):  # type: ignore[misc]
    """Multiplies by 3 in the trace as recorded, whatever was asked."""

    def transform_traces_pre_prologue(self, prologue: TraceCtx, trace: TraceCtx, epilogue: Any, **kwargs: Any) -> Any:
        """The traces with the constants of `mul` replaced, through its decomposition."""
        made = from_trace(trace)
        made.bound_symbols = [_tripled(b) if b.sym.name == "mul" else b for b in trace.bound_symbols]
        return prologue, made, epilogue


def _tripled(bsym: Any) -> Any:
    subsymbols = [sub.from_bsym(args=(sub.args[0], 3.0)) for sub in bsym.subsymbols]
    return bsym.from_bsym(args=(bsym.args[0], 3.0), subsymbols=subsymbols)


def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Writes, draws and multiplies."""
    x.add_(y)
    return torch.nn.functional.dropout(x, 0.5) * 2.0


def arguments(grad: bool = False) -> list[torch.Tensor]:
    """One tensor that is written and one that is read."""
    return [torch.ones(4, device="cuda"), torch.ones(4, device="cuda", requires_grad=grad)]


@pytest.mark.parametrize("grad", [False, True])
def test_every_pass_of_thunder_is_proved(grad: bool) -> None:
    """Each step from the recorded trace to the executed one, forward and backward, is proved."""
    found = verify_each(function, *arguments(grad))
    names = [check.name for check in found.passes]
    assert [check.name for check in found.passes if not check.proved] == []
    assert "Dead Code Elimination" in names
    assert "Update aliases for in-place ops" in names
    assert ("Grad transform pass" in names) is grad


def test_a_right_transform_is_among_the_passes() -> None:
    """A transform's rewrites, forward and backward, are passes under its class's name, and proved."""
    found = verify_each(function, *arguments(True), transforms=[CUDAGraphTransform()])
    own = [check for check in found.passes if check.name == "CUDAGraphTransform"]
    assert [check.trace for check in own] == ["computation", "backward_fn"]
    assert found.ok
    assert found.guilty is None


@pytest.mark.parametrize("transform", [Halving, Tripling])
def test_the_guilty_pass_is_named(transform: type[Transform]) -> None:
    """Of all passes, only the wrong transform is guilty, whether it rewrites before or after execution is chosen."""
    found = verify_each(function, *arguments(), transforms=[transform(), CUDAGraphTransform()])
    assert not found.ok
    assert {check.name for check in found.passes if not check.report.ok} == {transform.__name__}
    assert found.guilty is not None
    assert found.guilty.report.codes == ("CG501",)
    lines = found.render().splitlines()
    assert lines[-1] == f"guilty: {transform.__name__}"
    assert sum(line.startswith("words: ") for line in lines) == 1


def test_renders_for_machines() -> None:
    """JSON holds every pass with its verdict; GitHub annotations only the findings."""
    found = verify_each(function, *arguments(), transforms=[Halving()])
    data = json.loads(found.render("json"))
    assert data["ok"] is False
    assert [entry["pass"] for entry in data["passes"] if not entry["report"]["ok"]] == ["Halving"]
    assert found.render("github").startswith("::error title=CG501 wrong-output-value")


def test_what_the_function_raises_comes_through() -> None:
    """An error of the function itself is raised where every pass is right."""

    def failing(x: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("of the function's own")

    with pytest.raises(ZeroDivisionError, match="own"):
        verify_each(failing, torch.ones(2, device="cuda"))


def test_verified_raises() -> None:
    """A wrong rewrite of an execution trace, or of the recorded trace, raises before it runs."""
    for transform in (Halving(), Tripling()):
        jitted = thunder.jit(function, transforms=[Verified(transform)])
        x, y = arguments()
        with pytest.raises(VerificationError, match="CG501"):
            jitted(x, y)
        assert x.tolist() == [1.0] * 4


def test_verified_warns() -> None:
    """With `on_unproved="warn"` the wrong trace runs, with a warning that names transform and code."""
    jitted = thunder.jit(lambda x: x * 4.0, transforms=[Verified(Halving(), on_unproved="warn")])
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        assert jitted(torch.ones(2, device="cuda")).tolist() == [0.25, 0.25]
    own = [str(warning.message) for warning in raised if warning.category is RuntimeWarning]
    assert len(own) == 1
    assert own[0].startswith("Halving is not proved on computation")
    assert "error[CG501]" in own[0]


def test_verified_leaves_a_right_transform_alone() -> None:
    """A right transform runs as it would, and every trace that it made has a report."""
    guard = Verified(CUDAGraphTransform(verify=False))
    jitted = thunder.jit(lambda x: (x * 4.0).sum(), transforms=[guard])
    x = torch.ones(2, device="cuda", requires_grad=True)
    for _ in range(3):
        x.grad = None
        jitted(x).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [4.0, 4.0]
    assert [report.ok for report in guard.reports] == [True] * 3
    assert guard.transform.stats().graphs > 0


def test_verified_refuses_what_is_no_transform() -> None:
    """A class instead of an instance, or an unknown mode, is an error that says what to pass."""
    with pytest.raises(TypeError, match="pass an instance"):
        Verified(Halving)
    with pytest.raises(ValueError, match="neither 'raise' nor 'warn'"):
        Verified(Halving(), on_unproved="ignore")  # type: ignore[arg-type]


def test_assert_verified() -> None:
    """Nothing happens for a right rewrite; for a wrong one the assertion's message is the report."""
    before = chain()
    assert_verified(before, before)
    with pytest.raises(AssertionError, match=r"error\[CG502\]"):
        assert_verified(before, without(before, 3))


def test_a_guard_keeps_no_graphs() -> None:
    """A function that was run under `Verified`, without a backward, leaves no graph behind when it is deleted."""
    transform = CUDAGraphTransform()
    guard = Verified(transform)
    jitted = thunder.jit(lambda x: torch.sin(x) * 2, transforms=[guard])
    for _ in range(2):
        jitted(torch.ones(4, device="cuda"))
    assert transform.stats().graphs == 1
    del jitted
    gc.collect()
    assert (transform.stats().graphs, len(guard.reports)) == (0, 2)
