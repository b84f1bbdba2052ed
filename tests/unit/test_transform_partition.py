"""Aliases, liveness and the partition: order is kept, and no schedule has fewer regions."""

from __future__ import annotations

import itertools

from cgverify import CUDAGraphTransform, verify
from cgverify.ir import OpKind, TraceView, view_trace
from cgverify.transform.aliases import compute_aliases
from cgverify.transform.effects import Effects, compute_effects
from cgverify.transform.liveness import END, compute_liveness
from cgverify.transform.partition import Partition, choose_partition, compute_dependences
from tests.builders import TraceBuilder

from hypothesis import given, settings
from hypothesis import strategies as st
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol
from thunder.core.trace import tracectx
from thunder.executors import torchex


def partition_of(build: TraceBuilder, *results: object) -> tuple[TraceView, Partition]:
    view = view_trace(build.done(*results))
    effects = compute_effects(view)
    return view, choose_partition(view, effects, compute_aliases(view, effects))


def names(view: TraceView, ops: tuple[int, ...]) -> list[str]:
    return [view.ops[index].name for index in ops]


def test_islands_around_item_become_two_regions() -> None:
    """Work before and after a dependent `item` cannot share a region; the product with the number is left out."""
    build = TraceBuilder("x")
    total = build.op("sum", build["x"], None, False, dtype=None)
    number = build.op("item", total)
    scaled = build.op("mul", build["x"], number)
    view, partition = partition_of(build, build.op("exp", scaled))
    assert [(names(view, p.ops), p.device) for p in partition.phases] == [
        (["sum"], "cuda:0"),
        (["item", "mul"], None),
        (["exp"], "cuda:0"),
    ]
    assert [left.symbol for left in partition.left_out] == ["item", "mul"]


def test_independent_work_joins_one_region_across_an_item() -> None:
    """What does not depend on the `item` moves to the region before it."""
    build = TraceBuilder("x")
    number = build.op("item", build.op("sum", build["x"], None, False, dtype=None))
    other = build.op("exp", build["x"])
    _, partition = partition_of(build, number, other)
    assert sum(phase.device is not None for phase in partition.phases) == 1


def test_a_read_stays_before_a_later_write_of_the_same_memory() -> None:
    """`item` reads x through a view before x is overwritten, so the write may not join the region before the `item`."""
    build = TraceBuilder("x", "y")
    flat = build.op("reshape", build["x"], (16,))
    one = build.op("__getitem__", flat, 0)
    build.op("item", one)
    build.op("copy_", build.op("exp", build["y"]), build["x"], grad_enabled=False)
    view = view_trace(build.done())
    effects = compute_effects(view)
    before = compute_dependences(view, effects, compute_aliases(view, effects))
    item = next(op.index for op in view.ops if op.name == "item")
    write = next(op.index for op in view.ops if op.name == "copy_")
    assert item in before[write]


def test_draws_keep_their_order() -> None:
    """Each draw depends on the draw before it."""
    build = TraceBuilder("x")
    device, dtype = build["x"].device, build["x"].dtype
    for _ in range(3):
        build.op("uniform", (4, 4), 0.0, 1.0, device=device, dtype=dtype)
    view = view_trace(build.done())
    effects = compute_effects(view)
    before = compute_dependences(view, effects, compute_aliases(view, effects))
    first, second, third = (op.index for op in view.ops if op.name == "uniform")
    assert (before[first], before[second], before[third]) == (set(), {first}, {second})


def test_a_phase_of_views_alone_is_no_region() -> None:
    """A graph without a kernel is worth nothing, and is left out with that reason."""
    build = TraceBuilder("x")
    view, partition = partition_of(build, build.op("permute", build["x"], (1, 0)))
    assert all(phase.device is None for phase in partition.phases)
    assert [left.reason for left in partition.left_out] == ["launches no device work of its own, nor do its neighbours"]
    assert view.parameters == ("x",)


def test_views_alias_their_base_and_fresh_results_do_not() -> None:
    """A permuted view shares memory with its base; a sum does not."""
    build = TraceBuilder("x")
    view_name = build.op("permute", build["x"], (1, 0)).name
    fresh = build.op("add", build["x"], build["x"]).name
    view = view_trace(build.done())
    sets = compute_aliases(view, compute_effects(view))
    assert sets.may_alias("x", view_name)
    assert not sets.may_alias("x", fresh)


def test_updated_aliases_join_position_by_position() -> None:
    """`update_aliases((a, b))` returns a and b themselves: a's new name does not alias b's."""
    build = TraceBuilder("x")
    one, other = build.op("exp", build["x"]), build.op("sin", build["x"])
    new_one, new_other = build.op("update_aliases", (one, other))
    view = view_trace(build.done())
    sets = compute_aliases(view, compute_effects(view))
    assert sets.may_alias(one.name, new_one.name)
    assert sets.may_alias(other.name, new_other.name)
    assert not sets.may_alias(new_one.name, new_other.name)


def test_parameters_may_alias_each_other() -> None:
    """The caller may pass two views of one storage; region-local aliasing does not assume it."""
    build = TraceBuilder("x", "y")
    view = view_trace(build.done())
    effects = compute_effects(view)
    assert compute_aliases(view, effects).may_alias("x", "y")
    assert not compute_aliases(view, effects, caller_is_one=False).may_alias("x", "y")


def test_returned_values_live_to_the_end() -> None:
    """A value's last use is its last reader; what RETURN hands out never dies; a DEL is no use."""
    build = TraceBuilder("x")
    a = build.op("exp", build["x"])
    b = build.op("sin", a)
    view = view_trace(build.done(b))
    order = [(position, op.index) for position, op in enumerate(view.ops)]
    liveness = compute_liveness(view, order)
    assert liveness.last_use[a.name] == 2
    assert liveness.last_use[b.name] == END
    assert liveness.is_live_after(b.name, 99) and not liveness.is_live_after(a.name, 2)


def fewest_regions(view: TraceView, effects: tuple[Effects, ...], before: dict[int, set[int]]) -> int:
    """Brute force over all schedules of alternating phases: the least number of capturable runs."""
    ops = list(before)
    capturable = {index: effects[index].barrier is None for index in ops}
    best = len(ops)
    for order in itertools.permutations(ops):
        place = {index: position for position, index in enumerate(order)}
        if any(place[edge] > place[index] for index in ops for edge in before[index]):
            continue
        runs = sum(key for key, _ in itertools.groupby(order, key=capturable.__getitem__))
        best = min(best, runs)
    return best


steps = st.lists(
    st.tuples(st.sampled_from(["exp", "add", "item", "mul", "copy_"]), st.integers(0, 7), st.integers(0, 7)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_no_schedule_has_fewer_regions(program: list[tuple[str, int, int]]) -> None:
    """On every small program the partition has as few regions as the best of all orders, and keeps every dependence."""
    build = TraceBuilder("x", "y")
    tensors, numbers = [build["x"], build["y"]], [2.0]
    for name, left, right in program:
        a, b = tensors[left % len(tensors)], tensors[right % len(tensors)]
        if name == "item":
            numbers.append(build.op("item", build.op("sum", a, None, False, dtype=None)))
        elif name == "mul":
            tensors.append(build.op("mul", a, numbers[right % len(numbers)]))
        elif name == "copy_":
            tensors.append(build.op("copy_", a, b, grad_enabled=False))
        else:
            tensors.append(build.op(name, a) if name == "exp" else build.op(name, a, b))
    view = view_trace(build.done(tensors[-1]))
    effects = compute_effects(view)
    aliases = compute_aliases(view, effects)
    before = compute_dependences(view, effects, aliases)
    partition = choose_partition(view, effects, aliases)
    place = {index: position for position, index in enumerate(i for phase in partition.phases for i in phase.ops)}
    assert sorted(place) == sorted(before)
    assert all(place[edge] < place[index] for index in before for edge in before[index])
    if len(before) <= 8:
        assert sum(p.device is not None for p in partition.phases) == fewest_regions(view, effects, before)
    assert all(view.ops[index].kind is OpKind.COMPUTE for index in place)


def test_an_opaque_op_keeps_its_place_among_reads_and_writes_of_the_callers_memory() -> None:
    """An op that nobody knows may write what it is not even given: reads of parameters do not move across it."""
    build = TraceBuilder("x", "y")
    t = build.op("add", build["x"], build["y"])
    with tracectx(build.trace):
        symbol = Symbol("mystery", meta=lambda a: a, id="mystery", executor=torchex.ex)
        m = TensorProxy("m", like=t)
        build.trace.bound_symbols.append(symbol.bind(t, output=m))
    n = build.op("mul", build["y"], build["y"])
    build.op("copy_", n, build["x"], grad_enabled=False)
    trace = build.done(m)
    view = view_trace(trace)
    effects = compute_effects(view)
    before = compute_dependences(view, effects, compute_aliases(view, effects))
    mystery, product, write = (next(op.index for op in view.ops if op.name == n) for n in ("mystery", "mul", "copy_"))
    assert mystery in before[product]
    assert mystery in before[write]
    assert verify(trace, CUDAGraphTransform(verify=False).rewrite(trace)).ok
