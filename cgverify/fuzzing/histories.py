"""Hypothesis strategy for call histories: what a caller may do between calls, and does in real programs."""

from __future__ import annotations

from cgverify.fuzzing.program import (
    Backward,
    Call,
    Event,
    Forget,
    History,
    Relayout,
    Replace,
    Reseed,
    Scribble,
    Write,
)

from hypothesis import strategies as st

MIN_CALLS = 4
"""Un-graphed, capture, replay, replay with new values."""

_NUMBER = st.integers(0, 5)

_BETWEEN: st.SearchStrategy[Event] = st.one_of(
    st.builds(Reseed, _NUMBER),
    st.builds(Write, _NUMBER, _NUMBER),
    st.just(Forget()),
    st.builds(Scribble, _NUMBER, _NUMBER),
    st.builds(Backward, _NUMBER),
    # Twice each, because each concerns some of the inputs only.
    *[st.builds(Relayout, _NUMBER, st.sampled_from(("contiguous", "transposed", "strided", "offset")))] * 2,
    *[st.builds(Replace, _NUMBER, _NUMBER)] * 2,
)


@st.composite
def histories(draw: st.DrawFn, *, max_calls: int = 7) -> History:
    """Draw a history of at least four calls, most with new values, and at most one event before each call."""
    events: list[Event] = []
    rounds = draw(st.lists(st.integers(0, 7), min_size=MIN_CALLS, max_size=max_calls))
    for number, kind in enumerate(rounds):
        if kind >= 5:
            events.append(draw(_BETWEEN))
        events.append(Call(() if kind in (4, 5) and number else (number + 1,)))
    return tuple(events)
