"""Inputs that have come to rest are read where they lie, and copied again as soon as they lie elsewhere.

Every story is told with graphs and without, and has to end the same.
"""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any
from unittest import mock

from cgverify import CUDAGraphTransform
from cgverify.diagnostics import UngraphedWarning
from cgverify.emulation import EmulatedCUDA
from cgverify.runtime import region as region_module
from cgverify.runtime.graph import CapturedGraph
from cgverify.runtime.guards import Refusal
from cgverify.runtime.places import RESTS
from cgverify.runtime.results import CaptureRefusedError, plan_results
from tests.faults.pairs import Pair, assert_same, randn, step
from tests.faults.test_e import run_in_threads

import pytest
import thunder
import torch
from torch import nn

AFTER = 3
CALLS = 3 + AFTER
"""Un-graphed, captured, recognised, and then so many at the same addresses that the last one is captured anew."""


pytestmark = pytest.mark.usefixtures("cuda")


def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two inputs, both only read."""
    return torch.sin(x) * y + x


def inputs(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors of one shape."""
    return randn(*(shape or (4,))), randn(*(shape or (4,)))


def call_at_rest(pair: Pair, tensors: tuple[torch.Tensor, ...], calls: int = CALLS) -> None:
    """Calls both sides with new values at the same addresses."""
    for value in range(calls):
        tensors[0].fill_(value + 0.5)
        assert_same(*[side(*tensors) for side in pair.sides])


def copies_of_a_call(pair: Pair, *tensors: torch.Tensor) -> int:
    """How many tensors one call copies."""
    before = pair.transform.stats().copies
    assert_same(*[side(*tensors) for side in pair.sides])
    return pair.transform.stats().copies - before


def test_inputs_at_rest_are_not_copied() -> None:
    """The second capture takes the first one's place, reads new values where they are, and copies the result alone."""
    pair, tensors = Pair(fn, in_place_after=AFTER), inputs()
    call_at_rest(pair, tensors, CALLS - 1)
    assert (copies_of_a_call(pair, *tensors), pair.transform.stats().captures) == (1, 2)
    call_at_rest(pair, tensors)
    stats = pair.transform.stats()
    assert (stats.captures, stats.graphs, copies_of_a_call(pair, *tensors)) == (2, 1, 1)


def test_inputs_that_move_are_copied_again() -> None:
    """An address that was never captured is never read; one that was needs no other capture when inputs rest again."""
    pair, tensors, others = Pair(fn, in_place_after=AFTER), inputs(), inputs()
    call_at_rest(pair, tensors)
    assert [copies_of_a_call(pair, *others) for _ in range(2)] == [3, 3]
    assert copies_of_a_call(pair, others[0], tensors[1]) == 3
    call_at_rest(pair, tensors, AFTER)
    assert [copies_of_a_call(pair, *tensors) for _ in range(3 * AFTER)] == [1] * (3 * AFTER)
    assert copies_of_a_call(pair, *tensors) == 1
    assert pair.transform.stats().captures == 3


def test_a_region_is_captured_for_a_few_places_of_rest() -> None:
    """Inputs that rest here and there cost a bounded number of captures, and the last ones are copied."""
    pair, places = Pair(fn, in_place_after=AFTER), [inputs() for _ in range(RESTS + 2)]
    for tensors in places:
        call_at_rest(pair, tensors, 3 * CALLS)
    assert pair.transform.stats().captures == 1 + 2 * RESTS
    assert copies_of_a_call(pair, *places[-1]) == 3


def test_a_graph_keeps_no_argument_alive() -> None:
    """The caller's memory goes when the caller lets go of it; what lies there later is looked at afresh."""
    pair, tensors = Pair(fn, in_place_after=AFTER), inputs()
    call_at_rest(pair, tensors)
    storages = [weakref.ref(tensor.untyped_storage()) for tensor in tensors]
    tensors = inputs()
    gc.collect()
    assert [storage() for storage in storages] == [None, None]
    call_at_rest(pair, tensors)


def test_another_layout_at_the_same_addresses() -> None:
    """Sizes and strides are compared for inputs at rest as for others."""
    pair, tensors = Pair(fn, in_place_after=AFTER), inputs(4, 4)
    call_at_rest(pair, tensors)
    call_at_rest(pair, (tensors[0].t(), tensors[1]))
    call_at_rest(pair, (tensors[0][:2], tensors[1][:2]))
    tensors[0].t_()
    call_at_rest(pair, tensors)


def accumulate(total: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Writes its first input."""
    total += x
    return total * 2


def test_written_inputs_are_copied_and_written_back() -> None:
    """At rest as well: one copy in, one back, one of the result; and autograd sees each write, or more than one."""
    pair, pairs = Pair(accumulate, in_place_after=AFTER), [inputs(), None]
    pairs[1] = tuple(tensor.clone() for tensor in pairs[0])
    for _ in range(2 * CALLS):
        results = [side(*tensors) for side, tensors in zip(pair.sides, pairs, strict=True)]
        assert_same((results[0], *pairs[0]), (results[1], *pairs[1]))
    assert pairs[0][0]._version >= pairs[1][0]._version == 2 * CALLS
    before = pair.transform.stats()
    pair.graphed(*pairs[0])
    assert (before.captures, pair.transform.stats().copies - before.copies) == (2, 3)


def returned(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Hands out an input, a view of one, and something new."""
    return x, y.t(), x + y


def test_results_that_are_inputs_stay_inputs() -> None:
    """Who gets an input back gets the caller's own tensor, and a view shares its memory."""
    pair, tensors = Pair(returned, in_place_after=AFTER), inputs(4, 4)
    for _ in range(2 * CALLS):
        pair.agree(lambda: tensors)


def test_memory_that_is_copied_out_is_the_callers_own() -> None:
    """Results of earlier calls keep their values: what is read in place is never written."""
    pair, tensors = Pair(fn, in_place_after=AFTER), inputs()
    held = []
    for value in range(2 * CALLS):
        tensors[0].fill_(value)
        held.append((pair.graphed(*tensors), pair.plain(*tensors)))
    for graphed, plain in held:
        assert_same(graphed, plain)


def test_a_capture_that_fails_leaves_inputs_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that failed is right, is warned of once, and later ones are graphed as before."""
    pair, tensors = Pair(fn, in_place_after=AFTER), inputs()
    call_at_rest(pair, tensors, CALLS - 1)
    with monkeypatch.context() as broken:
        broken.setattr(region_module, "CapturedGraph", mock.Mock(side_effect=RuntimeError("no memory")))
        with pytest.warns(UngraphedWarning, match="no memory"):
            assert_same(*[side(*tensors) for side in pair.sides])
    call_at_rest(pair, tensors, 3 * CALLS)
    assert copies_of_a_call(pair, *tensors) == 3
    assert pair.ungraphed(Refusal.CAPTURE_FAILED) == 1


def test_training_lends_and_so_never_rests() -> None:
    """A capture for inputs at rest would be younger than the graphs of its pool that lend, and make them give way."""
    pair, results = Pair(fn, in_place_after=AFTER), []
    leaves = [tensor.requires_grad_() for tensor in inputs()]
    for _ in range(3 * CALLS):
        results.append([step(side, *leaves) for side in pair.sides])
    for graphed, plain in results:
        assert_same(graphed, plain)
    assert pair.transform.stats().captures == 2


def test_parameters_that_move_while_the_batch_rests() -> None:
    """A static input's new address is seen whatever the others do."""
    model = nn.Linear(4, 4, device="cuda").requires_grad_(False)
    pair, (x, _) = Pair(model, in_place_after=AFTER), inputs(2, 4)
    call_at_rest(pair, (x,))
    for module in (pair.graphed, pair.plain):
        for parameter in module.parameters():
            parameter.data = parameter.data.clone() + 1
    call_at_rest(pair, (x,), 2 * CALLS)


def test_never_is_never() -> None:
    """With None every call copies."""
    pair, tensors = Pair(fn, in_place_after=None), inputs()
    call_at_rest(pair, tensors, 4 * CALLS)
    assert (pair.transform.stats().captures, copies_of_a_call(pair, *tensors)) == (1, 3)


@pytest.mark.parametrize("calls", [0, -1, True, 1.5, "2"])
def test_settings_that_mean_nothing(calls: Any) -> None:
    """The error names the setting, its value, and what says never."""
    with pytest.raises(ValueError, match=r"in_place_after=.* is no positive integer: .* pass None"):
        CUDAGraphTransform(in_place_after=calls)


def test_threads_with_inputs_of_their_own(cuda: EmulatedCUDA | None) -> None:
    """Each thread's values come from its own memory, at rest or not."""
    pair = Pair(fn, in_place_after=AFTER)
    call_at_rest(pair, inputs())
    found: list[tuple[torch.Tensor, torch.Tensor]] = []

    def work() -> None:
        mine = inputs()
        for value in range(4 * CALLS):
            mine[0].fill_(value)
            found.append((pair.graphed(*mine), fn(*mine)))

    run_in_threads(cuda, [work] * 3)
    for graphed, expected in found:
        torch.testing.assert_close(graphed, expected, rtol=0, atol=0)


def test_a_graph_in_place_that_made_room_is_captured_again() -> None:
    """Evicted, it comes back for the same addresses after an un-graphed call."""
    pair, tensors = Pair(fn, in_place_after=AFTER, max_graphs=1), inputs()
    call_at_rest(pair, tensors)
    call_at_rest(pair, inputs(5), 2)
    with mock.patch.object(CapturedGraph, "close", autospec=True, side_effect=CapturedGraph.close) as close:
        call_at_rest(pair, tensors, 3)
    assert close.call_count == 1
    assert copies_of_a_call(pair, *tensors) == 1


def test_other_shapes_at_the_same_addresses_have_not_rested() -> None:
    """One length of a slice comes to rest; calls of others cost a capture each, wherever the buffer lies."""
    pair = Pair(lambda x: torch.sin(x) * 2 + x, in_place_after=AFTER, jit={"cache": "symbolic values"})
    places = [randn(64) for _ in range(RESTS)]
    for place in places:
        call_at_rest(pair, (place[:1],), 3 * CALLS)
        for length in range(2, 6):
            for _ in range(2):
                assert_same(*[side(place[:length]) for side in pair.sides])
    assert pair.transform.stats().captures <= 1 + 2 * RESTS + 4


def test_graphs_in_place_and_copying_ones_do_not_chase_each_other() -> None:
    """Where there is no room for both kinds, calls that alternate between two places end up with graphs that copy."""
    lengths = range(4, 10)
    pair = Pair(fn, in_place_after=AFTER, max_graphs=len(lengths), jit={"cache": "symbolic values"})
    first, second = ({length: inputs(length) for length in lengths} for _ in range(2))
    for tensors in first.values():
        call_at_rest(pair, tensors)
    for place in (first, second, first, second):
        for tensors in place.values():
            call_at_rest(pair, tensors, 1)
    before = pair.transform.stats()
    for place in (second, first) * 3:
        for tensors in place.values():
            call_at_rest(pair, tensors, 1)
    after = pair.transform.stats()
    assert (after.captures, after.ungraphed) == (before.captures, before.ungraphed)


def with_nothing(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A result without elements that is a view of an input."""
    return x + y, x[:0]


@pytest.mark.parametrize("check", [None, "first"])
def test_a_view_without_elements_keeps_no_argument_alive(check: str | None) -> None:
    """It has no memory, so it needs none of the caller's; its strides do not matter to a check."""
    pair, tensors = Pair(with_nothing, in_place_after=AFTER, check=check), inputs(4, 4)
    call_at_rest(pair, (tensors[0].t(), tensors[1].t()))
    storages = [weakref.ref(tensor.untyped_storage()) for tensor in tensors]
    del tensors
    gc.collect()
    assert [storage() for storage in storages] == [None, None]
    pair.assert_graphed(captures=2)


class Counted(nn.Module):
    """Writes the buffer, and reads the input."""

    def __init__(self, buffer: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("counts", buffer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.counts.add_(x)
        return self.counts * 2


def test_views_of_one_tensor_count_writes_together() -> None:
    """A write to one half, which the plan knows of, is no hidden write to the other half."""
    found = []
    for transforms in ([CUDAGraphTransform(in_place_after=AFTER)], []):
        flat = torch.ones(8, device="cuda")
        jitted = thunder.jit(Counted(flat[:4]), transforms=transforms)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UngraphedWarning)
            results = [jitted(flat[4:]) for _ in range(2 * CALLS)]
        found.append((*results, flat))
    assert_same(*found)


def test_a_view_under_the_dtype_of_one_of_two_inputs() -> None:
    """Inputs of one storage: the one that has the result's dtype is the one that it is a view of."""
    pair, (x, _) = Pair(lambda x, y: (x + 1, y.t()), in_place_after=AFTER), inputs(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UngraphedWarning)
        for _ in range(2 * CALLS):
            pair.agree(lambda: (x, x.view(torch.int32)))
    assert copies_of_a_call(pair, x, x.view(torch.int32)) == 1


def test_inputs_of_one_storage_that_later_have_their_own() -> None:
    """A view of the second input is taken from the second, though the first one's storage reached as far once."""
    flat = randn(256)
    first, second = flat[:128].view(8, 16), flat[128:].view(8, 16)
    makers = plan_results([first, second], [second.t()], ()).makers
    own = [tensor.clone() for tensor in (first, second)]
    assert_same(makers[0](own, ()), own[1].t())
    with pytest.raises(CaptureRefusedError, match="memory between inputs"):
        plan_results([first, second], [flat[64:192]], ())


def test_one_object_twice_and_two_objects() -> None:
    """A result that is an input is the caller's own object, of two at one address the right one."""
    frozen = [nn.Parameter(randn(4, 4), requires_grad=False)]
    frozen.append(nn.Parameter(frozen[0].data, requires_grad=False))
    jitted = thunder.jit(lambda x, y: (x + y, y.contiguous()), transforms=[CUDAGraphTransform(in_place_after=AFTER)])
    for second in (0, 1, 0):
        for _ in range(CALLS):
            assert jitted(frozen[0], frozen[second])[1] is frozen[second]
