"""Spans, overlaps and buffers, against brute force on real tensors."""

from __future__ import annotations

from cgverify.runtime.layout import ALIGNMENT, alignment, buffer_like, copyable, may_overlap_itself, span

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

layouts = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=4)


def indices(size: tuple[int, ...], stride: tuple[int, ...]) -> list[int]:
    """The element offset of every index, in order."""
    flat = torch.arange(200)
    return flat.as_strided(size, stride).flatten().tolist()


@given(layouts)
def test_span_is_one_past_the_last_element_touched(layout: list[tuple[int, int]]) -> None:
    """The span equals the largest offset plus one, 0 for an empty tensor."""
    size, stride = tuple(s for s, _ in layout), tuple(t for _, t in layout)
    touched = indices(size, stride)
    assert span(size, stride) == (max(touched) + 1 if touched else 0)


@given(layouts)
def test_no_overlap_means_no_index_is_touched_twice(layout: list[tuple[int, int]]) -> None:
    """Where the test for overlap says no, all offsets are distinct."""
    size, stride = tuple(s for s, _ in layout), tuple(t for _, t in layout)
    touched = indices(size, stride)
    if not may_overlap_itself(size, stride):
        assert len(set(touched)) == len(touched)


@pytest.mark.parametrize(
    ("size", "stride", "overlaps"),
    [((2, 3), (3, 1), False), ((3, 2), (1, 3), False), ((2, 3), (0, 1), True), ((3, 3), (1, 1), True), ((), (), False)],
)
def test_overlap_is_exact_for_common_layouts(size: tuple[int, ...], stride: tuple[int, ...], overlaps: bool) -> None:
    """Dense and transposed tensors do not overlap themselves; expanded and sliding ones do."""
    assert may_overlap_itself(size, stride) is overlaps


@given(layouts, st.integers(0, 7))
def test_a_buffer_keeps_layout_and_alignment(layout: list[tuple[int, int]], lead: int) -> None:
    """A buffer has the tensor's size, strides and address modulo 16, and takes its values through `copyable`."""
    size, stride = tuple(s for s, _ in layout), tuple(t for _, t in layout)
    tensor = torch.arange(200.0).as_strided(size, stride, lead)
    buffer = buffer_like(tensor)
    assert (buffer.size(), buffer.stride(), buffer.dtype) == (tensor.size(), tensor.stride(), tensor.dtype)
    if tensor.numel():
        assert alignment(buffer) == alignment(tensor) == tensor.data_ptr() % ALIGNMENT
        copyable(buffer).copy_(copyable(tensor))
        assert torch.equal(buffer, tensor)
