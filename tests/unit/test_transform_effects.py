"""What the transform believes each op does, and why an op may not be captured."""

from __future__ import annotations

from cgverify.ir import view_trace
from cgverify.transform.effects import Effects, compute_effects
from tests.builders import TraceBuilder

import pytest
import thunder
from thunder.core.symbol import Symbol
from thunder.core.trace import tracectx
from thunder.executors import torchex


def last_effects(build: TraceBuilder, **kwargs: object) -> Effects:
    """Effects of the op before RETURN."""
    trace = build.done()
    return compute_effects(view_trace(trace), **kwargs)[-2]  # type: ignore[arg-type]


def test_an_elementwise_op_on_one_device_is_capturable() -> None:
    """An `add` of two CUDA tensors has no barrier, no write, no draw."""
    build = TraceBuilder("x", "y")
    build.op("add", build["x"], build["y"])
    assert last_effects(build) == Effects()


def test_item_is_a_barrier_under_the_torch_executors_id() -> None:
    """The torch executor's symbol has id 'item', not PrimIDs.ITEM, and is refused all the same."""
    build = TraceBuilder("x")
    total = build.op("sum", build["x"], None, False, dtype=None)
    build.op("item", total)
    assert last_effects(build).barrier == "waits for the device to hand a value to the host"


def test_numbers_known_only_at_run_time_are_a_barrier() -> None:
    """A product with an `item` result would freeze the number in a graph."""
    build = TraceBuilder("x")
    number = build.op("item", build.op("sum", build["x"], None, False, dtype=None))
    build.op("mul", build["x"], number)
    barrier = last_effects(build).barrier
    assert barrier is not None and "a Python number known only at run time" in barrier


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        (("x:cpu", "y:cpu"), "works on `x`, a tensor on cpu"),
        (("x:cuda:0", "y:cuda:1"), "works on two devices: `x` is on cuda:0 and `y` is on cuda:1"),
    ],
)
def test_devices_are_read_off_the_operands(parameters: tuple[str, ...], reason: str) -> None:
    """Host tensors and tensors of two devices are refused with the tensors named."""
    build = TraceBuilder(*parameters)
    symbol = Symbol("add", meta=lambda a, b: a, id="add", executor=torchex.ex)
    with tracectx(build.trace):
        build.trace.bound_symbols.append(symbol.bind(build["x"], build["y"], output=build["x"]))
    assert last_effects(build).barrier == reason


def test_an_unknown_op_is_opaque_and_ordered_with_everything() -> None:
    """Default deny: an op outside the tables may write its arguments and draw numbers."""
    build = TraceBuilder("x")
    symbol = Symbol("mystery", meta=lambda a: a, id="mystery", executor=torchex.ex)
    with tracectx(build.trace):
        build.trace.bound_symbols.append(symbol.bind(build["x"], output=build["x"]))
    found = last_effects(build)
    assert found.opaque and found.random and found.writes == ("x",)
    assert found.barrier == "unknown op `mystery`: not in the table of capturable ops"


@pytest.mark.parametrize("capturable", [{"mystery"}, lambda bsym: bsym.sym.name == "mystery"])
def test_a_vouched_op_is_capturable(capturable: object) -> None:
    """A name or a predicate lets an unknown op into a region."""
    build = TraceBuilder("x")
    symbol = Symbol("mystery", meta=lambda a: a, id="mystery", executor=torchex.ex)
    with tracectx(build.trace):
        build.trace.bound_symbols.append(symbol.bind(build["x"], output=build["x"]))
    assert last_effects(build, capturable=capturable).barrier is None


def test_vouching_does_not_lift_a_host_sync() -> None:
    """`capturable={"item"}` changes nothing: only the verdict "unknown op" can be overridden."""
    build = TraceBuilder("x")
    build.op("item", build.op("sum", build["x"], None, False, dtype=None))
    assert last_effects(build, capturable={"item"}).barrier is not None


def test_a_copy_writes_its_second_argument() -> None:
    """`copy_(source, destination)` writes the destination."""
    build = TraceBuilder("x", "y")
    build.op("copy_", build["x"], build["y"], grad_enabled=False)
    assert last_effects(build).writes == ("y",)


def test_a_write_inside_a_fusion_is_traced_back_to_the_argument() -> None:
    """The destination of a fused `copy_` is an alias made inside; what is written is the fusion's argument."""
    build = TraceBuilder("x", "y")
    (alias,) = build.op("update_aliases", (build["x"],))
    result = build.op("copy_", build.op("add", alias, build["y"]), alias, grad_enabled=False)
    subsymbols = build.trace.bound_symbols[2:]
    symbol = Symbol("TorchCompile0", is_fusion=True, executor=thunder.get_executor("torchcompile"))
    build.trace.bound_symbols[2:] = [symbol.bind(build["x"], build["y"], output=[result], subsymbols=tuple(subsymbols))]
    assert last_effects(build).writes == ("x",)


def test_draws_are_found_by_id() -> None:
    """`uniform` draws although Thunder gives it no tag."""
    build = TraceBuilder("x")
    build.op("uniform", (4, 4), 0.0, 1.0, device=build["x"].device, dtype=build["x"].dtype)
    found = last_effects(build)
    assert found.random and found.barrier is None


def test_views_do_no_device_work() -> None:
    """A view is capturable but launches nothing."""
    build = TraceBuilder("x")
    build.op("permute", build["x"], (1, 0))
    assert last_effects(build) == Effects(works=False)


@pytest.mark.parametrize(
    ("key", "allowed"),
    [(0, True), ((slice(0, 2), 1), True), (None, True), (([0, 2],), False), (True, False)],
)
def test_an_index_from_the_host_is_a_barrier(key: object, allowed: bool) -> None:
    """Integers and slices are metadata; lists and masks copy from the host or sync."""
    build = TraceBuilder("x")
    symbol = Symbol("__getitem__", meta=lambda a, k: a, id="__getitem__", executor=torchex.ex)
    with tracectx(build.trace):
        build.trace.bound_symbols.append(symbol.bind(build["x"], key, output=build["x"]))
    assert (last_effects(build).barrier is None) is allowed


def test_structural_ops_have_no_effects() -> None:
    """Parameters and RETURN take part in no order of effects."""
    build = TraceBuilder("x")
    effects = compute_effects(view_trace(build.done(build["x"])))
    assert all(not e.writes and not e.random and not e.opaque for e in effects)


def test_an_op_that_only_reads_is_not_opaque() -> None:
    """`item` waits for the device, and neither writes its argument nor draws numbers."""
    build = TraceBuilder("x")
    build.op("item", build.op("sum", build["x"], None, False, dtype=None))
    found = last_effects(build)
    assert (found.writes, found.random, found.opaque) == ((), False, False)


@pytest.mark.parametrize("name", ["nll_loss_backward", "adaptive_avg_pool2d_backward"])
def test_a_fusion_may_name_an_op_otherwise_than_the_executor(name: str) -> None:
    """A leaf of a fused backward that the torch executor runs under another id is known all the same."""
    build = TraceBuilder("g", "x")
    result = build.op("mul", build["g"], build["x"])
    leaf = Symbol(name, id=name, is_prim=True).bind(build["g"], build["x"], output=result)
    fused = Symbol("TorchCompile0", is_fusion=True, executor=thunder.get_executor("torchcompile_xentropy"))
    build.trace.bound_symbols[2:] = [fused.bind(build["g"], build["x"], output=[result], subsymbols=(leaf,))]
    assert last_effects(build).barrier is None
