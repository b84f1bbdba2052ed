"""The vocabulary against torch and Thunder: every entry's types and statements are what both make of it."""

from __future__ import annotations

import random
from typing import Any

from cgverify.fuzzing.arguments import DTYPES, make_inputs
from cgverify.fuzzing.operations import FAMILIES, OPERATIONS
from cgverify.fuzzing.program import Input, Program, Step
from cgverify.fuzzing.rendering import compile_source, render_source
from cgverify.fuzzing.resolution import Resolved, resolve_program
from cgverify.fuzzing.snapshots import take_snapshots
from cgverify.fuzzing.tracing import build_trace, returned, trace_callable
from cgverify.fuzzing.values import DTYPES as DTYPE_NAMES
from cgverify.fuzzing.values import NumberType, TensorType, promote

import pytest
import torch
from thunder.core import dtypes
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")

SHAPES = ((2, 3), (3,), (3, 3), (), (1, 3), (2, 3, 3))
TRIALS = 14

# Executed by Thunder through torch._refs or other kernels than eager's, so equal only up to rounding.
OTHER_KERNELS = {"prod"}


def test_size() -> None:
    """There are at least 250 operations in fifteen families, `item`, views, writes and draws among them."""
    assert len(OPERATIONS) >= 250
    assert len(FAMILIES) >= 15
    assert {"item", "reshape", "copy_", "dropout", "matmul", "to_device"} <= OPERATIONS.keys()


def _program(name: str, source: random.Random, trial: int) -> Program:
    """Return a program of one operation on inputs of many kinds, on the CPU, which returns every value."""
    operation = OPERATIONS[name]
    dtype = "f32" if trial % 2 else source.choice(DTYPE_NAMES)
    inputs = tuple(Input(shape=source.choice(SHAPES), dtype=dtype, device="cpu", seed=n) for n in range(3))
    inputs += (Input(shape=(3,), dtype="i64", device="cpu"), Input(shape=inputs[0].shape, dtype=dtype, device="cpu"))
    params: dict[str, Any] = {}
    for key, parameter in operation.parameters.items():
        kinds = {"int": source.randrange(9), "flag": source.random() < 0.5}
        params[key] = kinds.get(parameter.kind, source.choice(parameter.choices or (None,)))
    if "device" in params:
        params["device"] = "cpu"
    numbers = (Step("item", (source.randrange(9),)),) if "number" in name or trial % 4 == 3 else ()
    step = Step(name, tuple(source.randrange(99) for _ in operation.operands), params)
    everything = tuple(range(40))
    return Program(inputs=inputs, steps=(*numbers, step), outputs=everything)


class _Watch(TorchDispatchMode):
    """Notes what the aten ops of a call do, by their schemas: draw random numbers, write what existed before."""

    def __init__(self, existing: set[int]) -> None:
        super().__init__()
        self.existing = existing
        self.drawn = False
        self.written: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.drawn |= torch.Tag.nondeterministic_seeded in func.tags
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.written |= self.existing & {value.untyped_storage().data_ptr()}
        return func(*args, **(kwargs or {}))


def _check_effects(resolved: Resolved, inputs: list[torch.Tensor], watch: _Watch, results: list[Any]) -> None:
    """What the entry says of draws, writes and views is what the schemas of the ops it runs say."""
    storages = [tensor.untyped_storage().data_ptr() for tensor in inputs]
    kinds = resolved.types
    assert watch.drawn == resolved.is_random
    # PyTorch's schema of batch norm does not say that it writes the running statistics, as these statements do.
    writes = [s.writes for s in resolved.statements if s.writes is not None and not s.results]
    claimed = {n for n in range(len(inputs)) if any(_share(kinds, n, written) for written in writes)}
    assert {n for n, storage in enumerate(storages) if storage in watch.written} == claimed
    for number, value in zip(resolved.outputs, results, strict=True):
        if isinstance(value, torch.Tensor) and value.numel() and number is not None:
            for n, storage in enumerate(storages):
                if value.untyped_storage().data_ptr() == storage:
                    assert _share(kinds, n, number)


def _share(kinds: Any, one: int, other: int) -> bool:
    return getattr(kinds[one], "storage", -1) == getattr(kinds[other], "storage", -2)


def _check_types(resolved: Resolved, results: list[Any]) -> None:
    for number, value in zip(resolved.outputs, results, strict=True):
        assert number is not None
        kind = resolved.types[number]
        if isinstance(kind, NumberType):
            assert type(value).__name__ == kind.kind
        else:
            assert (tuple(value.shape), value.dtype) == (kind.shape, DTYPES[kind.dtype])


@pytest.mark.parametrize("name", OPERATIONS)
def test_types_and_statements(name: str) -> None:
    """Eager PyTorch, Thunder's metas and the run of the built trace agree with the entry on shapes, dtypes and
    values.
    """
    source = random.Random(name)
    found = 0
    for trial in range(TRIALS):
        resolved = resolve_program(_program(name, source, trial))
        if not resolved.statements:
            continue
        found += 1
        seeds = [entry.seed for entry in resolved.inputs]
        layouts = ["contiguous"] * len(seeds)
        text = render_source(resolved).replace('"cuda"', '"cpu"')
        inputs = make_inputs(resolved.inputs, seeds, layouts)
        with _Watch({tensor.untyped_storage().data_ptr() for tensor in inputs if tensor.numel()}) as watch:
            eager = list(compile_source(text)(*inputs))
        _check_types(resolved, eager)
        _check_effects(resolved, inputs, watch, eager)
        trace = build_trace(resolved, "tuple")
        for number, proxy in zip(returned(resolved), trace.bound_symbols[-1].flat_args, strict=True):
            kind = resolved.types[number]
            if isinstance(kind, TensorType):
                assert (tuple(proxy.shape), dtypes.to_torch_dtype(proxy.dtype)) == (kind.shape, DTYPES[kind.dtype])
        if "cuda" in text or 'device="c' in text or "cuda" in str(trace) or name in OTHER_KERNELS:
            continue
        inputs = make_inputs(resolved.inputs, seeds, layouts)
        run = list(trace_callable(trace, resolved, "tuple")(*inputs))
        if not resolved.is_random:
            assert [s.bits for s in take_snapshots(run)] == [s.bits for s in take_snapshots(eager)]
    assert found >= 2


@pytest.mark.parametrize("first", DTYPE_NAMES)
@pytest.mark.parametrize("second", DTYPE_NAMES)
def test_promotion(first: str, second: str) -> None:
    """Promotion of tensors with and without dimensions, and of numbers, is torch's."""
    for shapes in (((3,), (3,)), ((3,), ()), ((), (3,)), ((), ())):
        a, b = (torch.empty(shape, dtype=DTYPES[dtype]) for shape, dtype in zip(shapes, (first, second), strict=True))
        kinds = (TensorType(shape, dtype, "cpu", 0) for shape, dtype in zip(shapes, (first, second), strict=True))
        assert DTYPES[promote(*kinds)] == torch.result_type(a, b)
    for number in (True, 2, 2.0):
        tensor = TensorType((3,), first, "cpu", 0)
        assert DTYPES[promote(tensor, number)] == torch.result_type(torch.empty(3, dtype=DTYPES[first]), number)
