"""Device scalars: number and tensor give the same bits, few graphs after an `item`, and no capture per value."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cgverify import CUDAGraphTransform, verify
from cgverify.ir import view_trace
from cgverify.plan import DeviceScalar
from cgverify.transform.aliases import compute_aliases
from cgverify.transform.effects import compute_effects
from cgverify.transform.scalars import COMPARISONS, DTYPES, EXACT, choose_scalars, feed_scalars
from tests.builders import TraceBuilder
from tests.faults.pairs import CALLS, Pair, assert_same, randn, step

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from thunder.core import dtypes
from thunder.core.trace import TraceCtx

pytestmark = pytest.mark.usefixtures("cuda")

FLOATS = (0.0, -0.0, 1.0, -1.5, 1 / 3, 1e-3, 65504.0, 1e30, 1e-30, float("inf"), float("-inf"), float("nan"))
BITS = {
    torch.float16: (torch.int16, (0x0001, 0x8001, 0x03FF, 0x7BFF, 0x7E01, 0x7FFF, 0x7D01, 0xFE01, 0xFD01)),
    torch.bfloat16: (torch.int16, (0x0001, 0x8001, 0x007F, 0x7F7F, 0x7FC1, 0x7FFF, 0x7F81, 0xFFC1, 0xFF81)),
    torch.float32: (torch.int32, (0x1, 0x80000001, 0x7FFFFF, 0x7F7FFFFF, 0x7FC00001, 0x7FFFFFFF, 0x7F800001)),
    torch.float64: (torch.int64, (0x1, (1 << 63) + 1, (1 << 52) - 1, 0x7FEFFFFFFFFFFFFF, 0x7FF8000000000001)),
}
"""Bit patterns: smallest and largest denormals, the largest number, NaNs with payloads, signalling ones among them."""


def special(dtype: torch.dtype) -> torch.Tensor:
    """Values of a dtype at which kernels are most likely to differ, on the CPU."""
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.tensor([0, 1, 2, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 3], dtype=dtype)
    integer, patterns = BITS[dtype]
    width = torch.iinfo(integer).bits
    signed = [bits - (1 << width) if bits >> (width - 1) else bits for bits in patterns]
    floats = torch.tensor(FLOATS, dtype=torch.float64).to(dtype)
    return torch.cat([floats, torch.tensor(signed, dtype=integer).view(dtype)])


def operands(values: torch.Tensor) -> list[torch.Tensor]:
    """The values on the device: aligned, long enough for vectorised kernels, not contiguous, and one that is 0-d."""
    many = values.repeat(50)
    rows = many[: len(many) // 8 * 8].reshape(8, -1)
    return [many.to("cuda"), many.to("cuda")[1:], rows.to("cuda").t(), values[5].to("cuda")]


def both_ways(
    call: Callable[..., torch.Tensor], position: int, values: torch.Tensor
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Results with each value as a number and as the tensor it was read from."""
    for scalar in values.to("cuda"):
        number = scalar.item()
        for other in operands(values):
            yield tuple(call(other, s) if position else call(s, other) for s in (number, scalar))


FED = [
    (name, position, dtype)
    for name, positions in EXACT.items()
    for position in positions
    for dtype in DTYPES
    if dtype is not dtypes.float64 or name in COMPARISONS
]


@pytest.mark.parametrize(("name", "position", "dtype"), FED, ids=str)
def test_number_and_tensor_give_the_same_bits(name: str, position: int, dtype: dtypes.dtype) -> None:
    """The premise, asked of torch's kernels without Thunder: CUDA's on a GPU, else those of the CPU."""
    values = special(dtypes.to_torch_dtype(dtype))
    for number, scalar in both_ways(getattr(torch, name), position, values):
        assert number.dtype is scalar.dtype and number.stride() == scalar.stride()
        assert number.dtype is (torch.bool if name in COMPARISONS else values.dtype)
        bits, expected = (t.contiguous().reshape(-1).view(torch.uint8) for t in (scalar, number))
        assert torch.equal(bits, expected)


def chosen(trace: TraceCtx) -> list[tuple[str, str, str]]:
    """What the transform would replace in a trace: op, number, tensor."""
    view = view_trace(trace)
    effects = compute_effects(view)
    return [(s.symbol, s.number, s.tensor) for s in choose_scalars(view, effects, compute_aliases(view, effects))]


def fed(trace: TraceCtx, symbol: str, number: str, tensor: str) -> TraceCtx:
    """The trace in which every op called `symbol` reads `tensor` in place of `number`."""
    view = view_trace(trace)
    scalars = [DeviceScalar(op.index, symbol, number, tensor, None) for op in view.ops if op.name == symbol]
    return feed_scalars(view, scalars).trace


class Numbers(TraceBuilder):
    """A trace with the sum `t` of `x`, and the number `n` that `item` made of it."""

    def __init__(self) -> None:
        super().__init__("x", "y")
        self.t = self.op("sum", self["x"], None, False, dtype=None)
        self.n = self.op("item", self.t)


@pytest.mark.parametrize(("symbol", "position"), [("mul", 0), ("add", 1), ("sub", 0), ("sub", 1), ("lt", 1), ("ne", 1)])
def test_an_exact_reader_is_fed_and_proved(symbol: str, position: int) -> None:
    """The transform replaces the number, and the verifier, which has a table of its own, proves it."""
    b = Numbers()
    arguments = (b["y"], b.n) if position else (b.n, b["y"])
    options = {"alpha": 1} if symbol in ("add", "sub") else {}
    trace = b.done(b.op(symbol, *arguments, **options))
    assert chosen(trace) == [(symbol, b.n.name, b.t.name)]
    assert verify(trace, fed(trace, symbol, b.n.name, b.t.name)).ok


def scaled(b: Numbers) -> tuple[object, ...]:
    return (b.op("add", b["y"], b.n, alpha=2),)


def divided(b: Numbers) -> tuple[object, ...]:
    return (b.op("true_divide", b["y"], b.n),)


def compared_on_the_left(b: Numbers) -> tuple[object, ...]:
    return (b.op("lt", b.n, b["y"]),)


def in_float64(b: Numbers) -> tuple[object, ...]:
    wide, total = (b.op("to", tensor, torch.float64, copy=False) for tensor in (b["y"], b.t))
    b.t, b.n = total, b.op("item", total)
    return (b.op("sub", wide, b.n),)


def in_another_dtype(b: Numbers) -> tuple[object, ...]:
    return (b.op("mul", b.op("to", b["y"], torch.float16, copy=False), b.n),)


def overwritten_in_between(b: Numbers) -> tuple[object, ...]:
    written = b.op("copy_", b.op("sum", b["y"], None, False, dtype=None), b.t, grad_enabled=False)
    return written, b.op("mul", b["y"], b.n)


@pytest.mark.parametrize(
    "reader",
    [scaled, divided, compared_on_the_left, in_another_dtype, overwritten_in_between],
    ids=lambda f: f.__name__,
)
def test_an_inexact_reader_is_not_fed_and_not_proved(reader: Callable[[Numbers], tuple[object, ...]]) -> None:
    """Where bits could differ, torch would refuse the number, or memory changed: not chosen, and an error if done."""
    b = Numbers()
    trace = b.done(*reader(b))
    assert chosen(trace) == []
    symbol = view_trace(trace).ops[-2].name
    found = verify(trace, fed(trace, symbol, b.n.name, b.t.name))
    assert not found.ok and {"CG402", "CG501"} & set(found.codes)


def test_another_tensor_is_not_the_number() -> None:
    """A 0-d tensor of the same dtype that `item` did not read proves nothing."""
    b = Numbers()
    other = b.op("sum", b["y"], None, False, dtype=None)
    trace = b.done(b.op("mul", b["y"], b.n), other)
    assert "CG501" in verify(trace, fed(trace, "mul", b.n.name, other.name)).codes


def test_work_after_item_is_one_region_and_item_stays() -> None:
    """Everything on the device is one graph, captured once for 1,000 values; `item` still waits, used or not."""
    seen = []

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, float]:
        scale = (x * 2).sum().item()
        return (x * scale - scale).sin() * (x < x.amax().item()), scale

    pair = Pair(fn)
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4, 3),), seed)
    (plan,) = pair.transform.report().plans
    assert [len(plan.regions), [left.symbol for left in plan.left_out]] == [1, ["item", "item"]]
    assert [scalar.symbol for scalar in plan.scalars] == ["mul", "sub", "lt"]
    for value in range(1000):
        seen.append(pair.graphed(torch.full((4, 3), float(value), device="cuda"))[1])
    assert seen == [24.0 * value for value in range(1000)]
    pair.assert_graphed(captures=1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8])
def test_values_of_every_dtype_are_those_of_the_number(dtype: torch.dtype) -> None:
    """Through Thunder, for each dtype with special values: the same bits with graphs as without."""
    pair = Pair(lambda x, s: (x * s.item(), x + s.item(), x == s.item()))
    values = special(dtype).to("cuda")
    for scalar in values:
        pair.agree(lambda scalar=scalar: (values.clone(), scalar.clone()))
    pair.assert_graphed(captures=1)
    assert set(pair.left_out) == ({"item"} if dtype is not torch.float64 else {"item", "mul", "add"})


def test_a_number_without_a_tensor_stays_outside() -> None:
    """Arithmetic on the host, and readers that are not exact, keep running on the number."""
    pair = Pair(
        lambda x: (x * (x.sum().item() * 0.5), (x + 1) / x.amax().item(), x * x.sum(0, keepdim=True).sum().item())
    )
    for seed in range(CALLS):
        pair.agree(lambda: (randn(4),), seed)
    assert pair.left_out["mul"].startswith("works on") and pair.left_out["true_divide"].startswith("works on")
    pair.assert_graphed()


def test_report_says_what_is_read_on_the_device() -> None:
    """The report names op, tensor and number."""
    transform = CUDAGraphTransform()
    b = Numbers()
    transform.rewrite(b.done(b.op("mul", b["y"], b.n)))
    assert f"mul: reads `{b.t.name}` on the device in place of `{b.n.name}`" in transform.report().render()


STEPS = st.lists(
    st.tuples(st.sampled_from(["sum", "item", "item", "mul", "mul", "sub", "lt", "copy_"]), *[st.integers(0, 9)] * 2),
    min_size=4,
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_what_is_chosen_is_proved_and_right(program: list[tuple[str, int, int]]) -> None:
    """In random traces that write 0-d tensors, every choice is proved, and three calls end in the same state."""
    b = TraceBuilder("x", "y")
    wide, scalars, numbers, masks = [b["x"], b["y"]], [b.op("sum", b["x"], None, False, dtype=None)], [2.0], []
    for name, left, right in program:
        a, t, n = wide[left % len(wide)], scalars[right % len(scalars)], numbers[-1 - right % len(numbers)]
        match name:
            case "sum":
                scalars.append(b.op("sum", a, None, False, dtype=None))
            case "item":
                numbers.append(b.op("item", t))
            case "copy_":
                scalars.append(b.op("copy_", scalars[left % len(scalars)], t, grad_enabled=False))
            case "lt":
                masks.append(b.op("lt", a, n))
            case _:
                kind = (wide, scalars)[left % 2]
                kind.append(b.op(name, kind[left // 2 % len(kind)], n, **({"alpha": 1} if name == "sub" else {})))
    trace = b.done(*wide[2:], *scalars, *numbers, *masks)
    after = CUDAGraphTransform().rewrite(trace)  # proved, or it raises
    runs = [each.python_callable() for each in (trace, after)]
    for call in range(3):
        assert_same(*(run(*(torch.full((4, 4), call + value, device="cuda") for value in (0.5, 1.25))) for run in runs))


def test_gradients_are_those_of_the_number() -> None:
    """In training the forward trace reads the tensor and the backward trace gets the number, which has no gradient."""
    pair = Pair(lambda x: ((x * 2).sin() * x.sum().item() - x.amax().item()).cos())
    for seed in range(CALLS):
        pair.do(lambda jitted: step(jitted, randn(4).requires_grad_()), seed)
    forward, backward = pair.transform.report().plans
    assert [scalar.symbol for scalar in forward.scalars] == ["mul", "sub"]
    assert backward.scalars == ()
    assert [left.reason.split("`")[0] for left in backward.left_out if left.symbol == "mul"] == ["works on "]
    pair.assert_graphed()
