"""Hypothesis strategy for call histories: what a caller may do between calls, and does in real programs."""

from __future__ import annotations

from typing import Literal

from cgverify.fuzzing.program import (
    Backward,
    Call,
    Collect,
    Draw,
    Event,
    Feed,
    Forget,
    History,
    Other,
    Relayout,
    Replace,
    Reseed,
    Scribble,
    Share,
    Stream,
    Write,
)

import msgspec
from hypothesis import strategies as st

MIN_CALLS = 4
"""Un-graphed, capture, replay, replay with new values."""

_NUMBER = st.integers(0, 5)
_BACKWARD = st.builds(Backward, _NUMBER, st.booleans(), st.sampled_from((None, None, 0, 1)))

_BETWEEN: st.SearchStrategy[Event] = st.one_of(
    st.builds(Reseed, _NUMBER),
    st.builds(Write, _NUMBER, _NUMBER),
    st.just(Forget()),
    st.builds(Scribble, _NUMBER, _NUMBER),
    _BACKWARD,
    # Twice each, because each concerns some of the inputs only.
    *[st.builds(Relayout, _NUMBER, st.sampled_from(("contiguous", "transposed", "strided", "offset")))] * 2,
    *[st.builds(Replace, _NUMBER, _NUMBER)] * 2,
    *[st.builds(Share, _NUMBER, _NUMBER, st.booleans())] * 2,
    *[st.builds(Feed, _NUMBER, _NUMBER)] * 2,
    st.just(Draw()),
    st.builds(Other, _NUMBER, st.sampled_from((False, False, True))),
    st.builds(Stream, st.integers(0, 2)),
    st.just(Collect()),
)

_IN_TRAINING = st.one_of(*[_BACKWARD] * 3, _BETWEEN)
_AUTOCAST: st.SearchStrategy[Literal["bf16", "f16"] | None] = st.sampled_from((None, None, None, None, "bf16", "f16"))
_MOSTLY = st.sampled_from((False, True, True, True))


@st.composite
def histories(draw: st.DrawFn, *, max_calls: int = 7, training: bool = False) -> History:
    """Draw a history of at least four calls, most with new values, and at most one event before each call.

    `training`: with more backwards between the calls, of which those left are run at the end, after several forwards;
    and in some histories most calls are made in autocast, which only `thunder.jit` looks at.
    """
    events: list[Event] = []
    rounds = draw(st.lists(st.integers(0, 9), min_size=MIN_CALLS, max_size=max_calls))
    for number, kind in enumerate(rounds):
        same = kind in (4, 5)
        if kind >= 5:
            events.append(draw(_IN_TRAINING if training else _BETWEEN))
            # A result is passed by calling with the same tensors again.
            same = same or isinstance(events[-1], Feed)
        seeds = () if same and number else (1,) if kind == 3 else (number + 1,)
        events.append(draw(_odd_calls(seeds)) if kind == 9 else Call(seeds))
    dtype = draw(_AUTOCAST) if training else None
    if dtype is None:
        return tuple(events)
    return tuple(_in_autocast(event, dtype) if draw(_MOSTLY) else event for event in events)


def _in_autocast(event: Event, dtype: Literal["bf16", "f16"]) -> Event:
    return msgspec.structs.replace(event, autocast=dtype) if isinstance(event, Call) else event


def _odd_calls(seeds: tuple[int, ...]) -> st.SearchStrategy[Call]:
    return st.sampled_from(
        (Call(seeds), Call(seeds, quiet=True), Call(seeds, thread=True), Call(seeds, captured=True), Call((2, 1, 3)))
    )
