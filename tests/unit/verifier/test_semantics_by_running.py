"""Facts about ops, derived a second time by running each op on small CPU tensors.

An op is called with every recipe of arguments that it accepts. What a call shows (shared memory, a written argument, a
moved generator) must be claimed; what a recipe does not show proves nothing, so claims may go further.
"""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import cgverify.verifier.semantics as semantics
from cgverify.verifier.semantics import tables

import pytest
import torch
from thunder.executors import torchex

# These run for minutes, ask the network, or change the process. `ldl_solve` aborts the process on some builds.
_SKIPPED = frozenset({"lobpcg", "module_load", "retain_grad", "is_shared", "pin_memory", "as_strided", "ldl_solve"})


def _python_form(symbol: Any) -> Callable[..., Any] | None:
    """What the executed text would call."""
    bound = symbol._bind_postprocess
    probe = type("Probe", (), {})()
    if bound is not None:
        bound(probe)
    context = getattr(probe, "_call_ctx", None)
    if context:
        called: Callable[..., Any] = context[symbol.name]
        return called
    found = getattr(symbol.module, symbol.name, None)
    return found if callable(found) else None


def _recipes() -> Iterator[tuple[Any, ...]]:
    """Argument lists, each with tensors of its own."""

    def x(*shape: int) -> torch.Tensor:
        return torch.rand(shape or (4, 4)) + 0.5

    def image() -> torch.Tensor:
        return torch.rand(1, 2, 4, 4)

    index = torch.zeros(4, dtype=torch.int64)
    for tail in ((), (0,), (1,), (0, 1), (2, 0), ((4, 4),), ((0, 1),), (0.0,), (0.5, True), (0.0, True), (0.5, False)):
        yield (x(), *tail)
        yield (image(), *tail)
        yield (torch.ones(4, 4, dtype=torch.int64), *tail)
    yield (torch.ones(4, 4, dtype=torch.bool),)
    yield from ((x(), x()), (x(), x(), x()), (x(4), x(4)), (x(), x(4)), (x(), index, x()), (x(), 0, index))
    yield from (
        (x(), torch.float32),
        (x(), torch.float64),
        (x(), 1, 1, 1),
        (x(), [2, 2]),
        ([x(), x()],),
        (x(), 0, 0, 1),
    )
    yield from ((image(), x(2), x(2), None, None, True, 0.1, 1e-5), (image(), x(2), x(2), x(2), x(2), True, 0.1, 1e-5))
    yield from ((image(), x(2), x(2), x(2), x(2), False, 0.1, 1e-5), (image(), (0, 0, 0, 0)), (image(), (1, 1)))
    yield from ((x(), True), (x(), True, False), (x(), 0.1, 0.3, True, True), ((4, 4),), (image(), image(), image()))
    yield from ((x(), x(), True), (torch.rand(4, 4, dtype=torch.complex64),), (x(1),), (x(), (1, 1)), (x(), x(4, 4), 0))


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _tensors(item)


def _share(one: torch.Tensor, other: torch.Tensor) -> bool:
    with contextlib.suppress(RuntimeError, NotImplementedError):
        return one.numel() > 0 and one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    return False


def _observe(called: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[set[int], set[int], bool] | None:
    """Positions whose memory a result shares, positions written, and whether the generator moved; None if it raises."""
    versions = [[t._version for t in _tensors(argument)] for argument in arguments]
    state = torch.random.get_rng_state()
    try:
        result = called(*arguments)
    except Exception:  # a recipe that does not fit: any op may raise anything
        return None
    moved = not torch.equal(state, torch.random.get_rng_state())
    shared, written = set(), set()
    for position, argument in enumerate(arguments):
        tensors = list(_tensors(argument))
        if any(_share(t, r) for t in tensors for r in _tensors(result)):
            shared.add(position)
        if [t._version for t in tensors] != versions[position]:
            written.add(position)
    return shared, written, moved


@pytest.fixture(scope="module")
def observations() -> dict[str, tuple[set[int], set[int], bool]]:
    """What all recipes together showed, per op."""
    found: dict[str, tuple[set[int], set[int], bool]] = {}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        for name, symbol in torchex.ex.opmap.items():
            called = _python_form(symbol)
            if called is None or name in _SKIPPED or name.endswith("_vjp") or "dtensor" in name or "fsdp" in name:
                continue
            for recipe in _recipes():
                seen = _observe(called, recipe)
                if seen is None:
                    continue
                shared, written, moved = found.setdefault(name, (set(), set(), False))
                found[name] = (shared | seen[0], written | seen[1], moved or seen[2])
    return found


def test_many_ops_ran(observations: dict[str, tuple[set[int], set[int], bool]]) -> None:
    """The recipes fit at least 400 of the executor's ops, so that the next three tests say something."""
    assert len(observations) >= 400


def test_shared_memory_is_claimed(observations: dict[str, tuple[set[int], set[int], bool]]) -> None:
    """Where a result shared memory with an argument, the facts say that it may."""
    missing = {}
    for name, (shared, written, _) in observations.items():
        rule = semantics.signature(torchex.ex.opmap[name])
        claimed = set(rule.views) | set(rule.writes)
        if not rule.identity and -1 not in claimed and not shared - written <= claimed:
            missing[name] = shared - written - claimed
    assert missing == {}


@pytest.mark.parametrize("name", sorted(tables.NEVER_VIEWS))
def test_never_a_view(name: str) -> None:
    """What is claimed to be in memory of its own is, also where there is nothing to compute."""
    called = _python_form(torchex.ex.opmap[name])
    assert called is not None
    for tail in ((4,), (None, 1.0), (None, 2.0), ((4, 4), None, "bilinear")):
        recipe = (torch.rand(1, 2, 4, 4), *tail)
        assert _observe(called, recipe) == (set(), set(), False)


def test_no_view_of_what_is_fresh(observations: dict[str, tuple[set[int], set[int], bool]]) -> None:
    """What is said to be in memory of its own is, unless the op was told to work in place; a few hundred ops ran."""
    fresh = {name for name in observations if semantics.signature(torchex.ex.opmap[name]).fresh}
    assert {name: observations[name] for name in fresh if observations[name][0] - observations[name][1]} == {}
    assert len(fresh) >= 200


def test_writes_are_claimed(observations: dict[str, tuple[set[int], set[int], bool]]) -> None:
    """Where an argument was written, the schema, a table, or the in-place flag of its decomposition says so."""
    missing = {}
    for name, (_, written, _) in observations.items():
        rule = semantics.signature(torchex.ex.opmap[name])
        if not written <= set(rule.writes) and name not in ("batch_norm", "instance_norm", *_INPLACE_FLAGS):
            missing[name] = written - set(rule.writes)
    assert missing == {}


# Written only with `inplace=True` or in training: shown by the `copy_` in Thunder's decomposition (next module).
_INPLACE_FLAGS = frozenset(
    [
        "celu",
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "elu",
        "alpha_dropout",
        "feature_alpha_dropout",
        "hardsigmoid",
        "hardswish",
        "hardtanh",
        "leaky_relu",
        "mish",
        "relu",
        "relu6",
        "rrelu",
        "selu",
        "silu",
        "threshold",
    ]
)


def test_draws_are_claimed(observations: dict[str, tuple[set[int], set[int], bool]]) -> None:
    """Where the generator moved, the facts say that the op draws."""
    missing = [
        name
        for name, (_, _, moved) in observations.items()
        if moved and not semantics.signature(torchex.ex.opmap[name]).random
    ]
    assert missing == []


def test_recipes_are_numbers() -> None:
    """No recipe holds a NaN, whose comparison would hide what happened."""
    assert not any(math.isnan(float(t.real.sum())) for recipe in _recipes() for t in _tensors(recipe))
