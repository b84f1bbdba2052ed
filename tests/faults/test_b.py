"""Group B: host work that a capture would freeze."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cgverify.runtime.guards import Refusal
from tests.faults.pairs import CALLS, Pair, operator, randn, warnings_of_the_transform

import pytest
import thunder
import torch
from thunder.core.proxies import TensorProxy
from torch import nn
from torch.nn import functional

pytestmark = pytest.mark.usefixtures("cuda")

ATTENTION = torch._C._get_sdp_priority_order()

NUMBERS: list[Any] = [1.0, 2.0, 1, True, float("nan"), -0.0, 0.0, 2**40]


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
def test_B01_numbers_baked_into_kernels(cache: str) -> None:
    """Each call uses its own Python number, whichever Thunder keys and whichever it passes at run time."""
    pair = Pair(lambda x, s: x * s + (x + 1).sin(), jit={"cache": cache})
    for seed in range(2):
        for number in NUMBERS if cache == "constant values" else [1.0, 2.0, 0.5, -3.0]:
            pair.agree(lambda number=number: (randn(4), number), seed)
            pair.agree(lambda number=number: (randn(4), number), seed + 1)
    pair.assert_graphed()


def test_B01_numbers_from_item_are_read_on_the_device() -> None:
    """One graph serves every value that `item` hands to the host, special ones too; the caller gets each value."""

    def scale(x: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, float]:
        number = s.item()
        return ((x - number) * number).tanh(), number

    pair = Pair(scale)
    for seed, number in enumerate([2.0, 2.0, *NUMBERS, float("inf"), 1e-40]):
        pair.agree(lambda number=number: (randn(4), torch.tensor(float(number), device="cuda")), seed)
    pair.assert_graphed(captures=1)
    assert set(pair.left_out) == {"item"}


def test_B02_cpu_work_runs_at_capture_only() -> None:
    """The part of a function that runs on the CPU, and what depends on it, is new on each call."""
    pair = Pair(lambda x, h: ((x.cpu() + 1).cuda() + x, h * 2, (torch.arange(4) + h).to("cuda") * x, (x * 2).sin()))
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4), torch.randn(4)), seed)
    assert "a tensor on cpu" in pair.left_out["mul"]
    pair.assert_graphed()


def test_B03_scalar_tensor_on_the_cpu() -> None:
    """A CPU scalar mutated between calls, or made by `item`, is read on each call."""
    pair = Pair(lambda x, s: ((x + 1) * s, x * x.sum().item(), (x * 3).cos()))
    mine, theirs = torch.tensor(2.0), torch.tensor(2.0)
    for seed in range(CALLS):
        x = randn(4)
        results = pair.graphed(x, mine), pair.plain(x, theirs)
        assert torch.equal(results[0][0], (x + 1) * (2.0 + seed))
        for one, other in zip(*results, strict=True):
            assert torch.equal(one, other)
        mine.add_(1)
        theirs.add_(1)
    pair.assert_graphed()


def test_B04_branch_frozen_to_one_side() -> None:
    """Thunder refuses a branch on a tensor, with graphs as without; a branch outside takes the side of the call."""
    pair = Pair(lambda x: torch.relu(x) if x.sum() > 0 else -x)
    for jitted in pair.sides:
        with pytest.raises(NotImplementedError, match="data dependency"):
            jitted(randn(4))
    total, positive, negative = Pair(lambda x: (x * 2).sum().item()), Pair(torch.relu), Pair(torch.neg)
    for seed in range(2 * CALLS):
        x = torch.full((4,), 1.0 + seed, device="cuda") * (-1) ** seed
        side = positive if total.agree(lambda x=x: (x.clone(),)) > 0 else negative
        assert torch.equal(side.agree(lambda x=x: (x.clone(),)), x.abs())
        assert side is (negative if seed % 2 else positive)
    total.assert_graphed(captures=1)


def test_B05_state_built_in_the_warm_up() -> None:
    """An op that keeps a tensor it made of the first values runs un-graphed, and goes on doing what it does."""

    def make_pair() -> Pair:
        plans: dict[Any, torch.Tensor] = {}

        def planned(a: torch.Tensor, owner: str) -> torch.Tensor:
            key = owner, a.shape
            if key not in plans:
                plans[key] = a.abs().argsort()
            return a[plans[key]]

        symbol, jit = operator(planned, lambda a, owner: TensorProxy(like=a))
        return Pair(lambda x, owner: symbol(x * 2, owner) + 1, jit=jit)

    pair = make_pair()
    for seed in range(CALLS):
        torch.manual_seed(seed)
        x = randn(4)
        assert torch.equal(pair.graphed(x, "mine"), pair.plain(x, "theirs"))
    assert pair.left_out["planned"].startswith("unknown op")
    pair.assert_graphed()


def test_B06_metadata_rebuilt_on_each_step() -> None:
    """Tensors in a dict and a tuple that the caller builds anew are read from where they are now."""

    def fn(x: torch.Tensor, step: dict[str, Any]) -> torch.Tensor:
        start, lengths = step["window"]
        return x[step["rows"]] * step["scale"] + start - lengths

    pair = Pair(fn)
    held = []
    for seed in range(CALLS):

        def make() -> tuple[Any, ...]:
            rows = torch.randint(4, (3,), device="cuda")
            return randn(4, 2), {"rows": rows, "scale": randn(3, 2), "window": (randn(2), randn(3, 1))}

        pair.agree(make, seed)
        held.append(randn(5 + seed))  # moves what comes after
    pair.assert_graphed(captures=1)


@pytest.mark.parametrize("pinned", [False, True])
def test_B07_copy_from_host_memory(pinned: bool) -> None:
    """A host tensor changed or freed between calls is copied when the call is made, and results arrive complete."""
    pair = Pair(lambda x, h: ((x * 2 + h.to("cuda")).sin(), (x + 1).sum().to("cpu")))
    for seed in range(CALLS):

        def make() -> tuple[torch.Tensor, torch.Tensor]:
            h = torch.randn(4)
            return randn(4), h.pin_memory() if pinned else h

        pair.agree(make, seed)
        torch.full((4,), 7.0, device="cpu").pin_memory()
    assert pair.left_out["to"] == "copies between host and device" or "cpu" in pair.left_out["to"]
    pair.assert_graphed()


def test_B08_tensor_made_of_python_values() -> None:
    """A tensor built from numbers in the middle of the program holds the numbers of the call."""
    pair = Pair(lambda x, n: ((x * 2).sin() + torch.tensor([n, n + 1.0], device="cuda")).cos())
    for seed in range(CALLS):
        for n in (1.0, 2.0):
            pair.agree(lambda n=n: (randn(2), n), seed)
    assert any("host" in reason for reason in pair.left_out.values())
    pair.assert_graphed()


def test_B09_settings_chosen_from_the_data_of_the_capture() -> None:
    """Replays with values a thousand times larger, negative, or zero are right."""
    pair = Pair(lambda x: (x / x.abs().amax(-1, keepdim=True), torch.softmax(x, -1), (x * 127).round()))
    for seed, scale in enumerate((1e-3, 1e-3, 1.0, 1e3, -1e3, 0.0)):
        pair.agree(lambda scale=scale: (randn(3, 4) * scale,), seed)
    pair.assert_graphed(captures=1)


def test_B10_autocast_cast_cache() -> None:
    """Under autocast a weight changed in place is cast anew, in the same block and in a new one."""
    pair = Pair(nn.Linear(4, 4).to("cuda").requires_grad_(False))

    def change(jitted: Any) -> None:
        jitted.get_parameter("weight").mul_(-2)

    for seed in range(CALLS):
        with torch.autocast("cuda", torch.bfloat16):
            pair.agree(lambda: (randn(3, 4),), seed)
            pair.do(change, seed)
            pair.agree(lambda: (randn(3, 4),), seed)
        pair.agree(lambda: (randn(3, 4),), seed)
    pair.assert_graphed()


def test_B10_autocast_stays_off_behind_a_region() -> None:
    """What follows a region that runs un-graphed under autocast finds autocast off, as it does without graphs."""
    seen: list[bool] = []

    def note(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.is_autocast_enabled("cuda"))
        return x.clone()

    symbol, jit = operator(note, lambda x: TensorProxy(like=x))
    pair = Pair(lambda x: symbol((x * 2).sin()) + 1, jit=jit)
    for seed in range(CALLS):
        with torch.autocast("cuda", torch.bfloat16):
            pair.agree(lambda: (randn(3, 4),), seed)
            assert torch.is_autocast_enabled("cuda")
        pair.agree(lambda: (randn(3, 4),), seed)
        assert not torch.is_autocast_enabled("cuda")
    assert seen == [False] * 4 * CALLS
    pair.assert_graphed()


@pytest.mark.parametrize(
    ("read", "write"),
    [
        (lambda: torch.backends.cuda.matmul.allow_tf32, lambda v: setattr(torch.backends.cuda.matmul, "allow_tf32", v)),
        (lambda: torch.backends.cudnn.deterministic, lambda v: setattr(torch.backends.cudnn, "deterministic", v)),
        (torch.are_deterministic_algorithms_enabled, lambda v: torch.use_deterministic_algorithms(v)),
        (
            lambda: torch.utils.deterministic.fill_uninitialized_memory,
            lambda v: setattr(torch.utils.deterministic, "fill_uninitialized_memory", v),
        ),
        (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
        (
            torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed,
            torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp,
        ),
        (
            lambda: torch._C._get_sdp_priority_order()[0] == ATTENTION[0],
            lambda v: torch._C._set_sdp_priority_order(ATTENTION if v else ATTENTION[::-1]),
        ),
    ],
    ids=["tf32", "cudnn", "deterministic", "filled", "sdp", "sdp-reduction", "sdp-order"],
)
def test_B11_global_switches_change(read: Callable[[], bool], write: Callable[[bool], None]) -> None:
    """A graph serves calls under the switches of its capture only; flipping back finds it again."""
    pair = Pair(lambda x: (x @ x).cumsum(0))
    before = read()
    try:
        for seed in range(CALLS):
            for value in (True, False):
                write(value)
                pair.agree(lambda: (randn(4, 4),), seed)
    finally:
        write(before)
    pair.assert_graphed(captures=2)


def test_B11_train_eval_and_grad_mode_change() -> None:
    """Dropout follows `train`, `eval`, `no_grad` and `inference_mode`."""
    pair = Pair(nn.Dropout(0.5))
    for seed in range(2 * CALLS):
        for jitted in pair.sides:
            jitted.train(seed % 2 == 0)
        with (torch.enable_grad, torch.no_grad, torch.inference_mode)[seed // 2 % 3]():
            pair.agree(lambda: (randn(4, 3),), seed)
    pair.assert_graphed()


def test_B12_state_stepped_by_the_host() -> None:
    """An op with an amax history and a first-call flag on the host runs un-graphed, one step per call."""

    class Scaler:
        def __init__(self) -> None:
            self.history: list[float] = []

    def quantise(a: torch.Tensor, owner: int) -> torch.Tensor:
        scaler = scalers[owner]
        scale = max(scaler.history[-2:], default=1.0)
        scaler.history.append(a.abs().max().item())
        return (a / scale).round() * scale

    scalers = [Scaler(), Scaler()]
    symbol, jit = operator(quantise, lambda a, owner: TensorProxy(like=a))
    pair = Pair(lambda x, owner: symbol(x * 3, owner) + 1, jit=jit)
    for seed in range(CALLS):
        x = randn(4) * (seed + 1)
        assert torch.equal(pair.graphed(x, 0), pair.plain(x, 1))
    assert scalers[0].history == scalers[1].history and len(scalers[0].history) == CALLS
    assert pair.left_out["quantise"].startswith("unknown op")


@pytest.mark.parametrize("vouched", [False, True])
def test_B13_op_behaves_differently_under_capture(vouched: bool) -> None:
    """An op that asks whether it is captured runs un-graphed; vouched for, `check="first"` finds the difference."""

    def asks(a: torch.Tensor) -> torch.Tensor:
        return a * 3 if torch.cuda.is_current_stream_capturing() else a * 2

    symbol, jit = operator(asks, lambda a: TensorProxy(like=a))
    pair = Pair(lambda x: symbol(x) + 1, jit=jit, capturable={"asks"} if vouched else None, check="first")
    with warnings_of_the_transform() as said:
        for seed in range(CALLS):
            pair.agree(lambda: (randn(4),), seed)
    assert pair.ungraphed(Refusal.CHECK_FAILED) == (CALLS - 2 if vouched else 0)
    assert len(said) == vouched
    assert all("first replay differs" in message for message in said)


def test_B14_python_effects_disappear() -> None:
    """An op that prints or counts runs on each call, between two regions."""
    seen: list[float] = []

    def note(a: torch.Tensor) -> torch.Tensor:
        seen.append(a.sum().item())
        return a.clone()

    symbol, jit = operator(note, lambda a: TensorProxy(like=a))
    graphed = Pair(lambda x: symbol(torch.relu(x) * 2).sin() + 1, jit=jit)
    for seed in range(CALLS + 1):
        graphed.agree(lambda: (randn(4),), seed)
    assert len(seen) == 2 * (CALLS + 1) and seen[::2] == seen[1::2]
    assert len(graphed.transform.report().plans[0].regions) == 2


def test_B14_hooks_of_modules_run_on_each_call() -> None:
    """A forward hook of the jitted module counts every call, replays too."""
    calls: list[int] = []
    module = nn.Linear(3, 3).to("cuda")
    pair = Pair(module)
    pair.graphed.register_forward_hook(lambda *args: calls.append(1))
    for seed in range(CALLS):
        pair.do(lambda jitted: functional.relu(jitted(randn(2, 3))), seed)
    assert len(calls) == CALLS
    assert "CUDAGraph0" in str(thunder.last_traces(pair.graphed)[-1])
