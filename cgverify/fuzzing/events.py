"""What a caller does between and at calls, as plain data: the events of a history."""

from __future__ import annotations

from typing import Literal

import msgspec

Layout = Literal["contiguous", "transposed", "strided", "offset", "expanded"]


class Plain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, repr_omit_defaults=True):
    """Immutable data without unknown fields, whose repr is the Python expression that makes it."""


class Call(Plain, frozen=True, tag="call", tag_field="do"):
    """Call the function.

    Attributes:
        seeds: make new arguments, one seed each, used cyclically; none: the same tensors again.
        quiet: with autograd switched off.
        thread: in another thread.
        captured: inside a capture of the caller's own, which is then launched; not the first call, and not where the
            program itself cannot be captured.
        autocast: in `torch.autocast` on the device, with this dtype. It has no effect on a trace built directly.
    """

    seeds: tuple[int, ...] = ()
    quiet: bool = False
    thread: bool = False
    captured: bool = False
    autocast: Literal["bf16", "f16"] | None = None


class Reseed(Plain, frozen=True, tag="reseed", tag_field="do"):
    """Seed the random generators."""

    seed: int = 0


class Draw(Plain, frozen=True, tag="draw", tag_field="do"):
    """The caller draws random numbers of its own."""


class Write(Plain, frozen=True, tag="write", tag_field="do"):
    """The caller overwrites, in place, the tensor it last passed as `input` (modulo their number)."""

    input: int = 0
    seed: int = 0


class Replace(Plain, frozen=True, tag="replace", tag_field="do"):
    """The caller gives `input` new storage (`tensor.data = ...`)."""

    input: int = 0
    seed: int = 0


class Relayout(Plain, frozen=True, tag="relayout", tag_field="do"):
    """From here on the caller makes `input` with another layout."""

    input: int = 0
    layout: Layout = "contiguous"


class Share(Plain, frozen=True, tag="share", tag_field="do"):
    """From here on the caller makes `input` from the memory of `base`, `shifted` by one element or not.

    Where the two do not fit, or `base` is not earlier, `input` is made as the program says again.
    """

    input: int = 0
    base: int = 0
    shifted: bool = False


class Feed(Plain, frozen=True, tag="feed", tag_field="do"):
    """The caller passes a result that it holds as `input`, if it fits, until it makes new arguments."""

    input: int = 0
    result: int = 0


class Scribble(Plain, frozen=True, tag="scribble", tag_field="do"):
    """The caller overwrites, in place, a tensor that an earlier call returned to it (modulo their number)."""

    result: int = 0
    seed: int = 0


class Forget(Plain, frozen=True, tag="forget", tag_field="do"):
    """The caller drops every result and gradient it holds."""


class Collect(Plain, frozen=True, tag="collect", tag_field="do"):
    """The caller collects garbage."""


class Stream(Plain, frozen=True, tag="stream", tag_field="do"):
    """From here on the caller calls on stream `number` modulo 3, where 0 is the default stream."""

    number: int = 0


class Other(Plain, frozen=True, tag="other", tag_field="do"):
    """The caller calls another function, compiled in the same way with the same transform; or drops that one."""

    seed: int = 0
    drop: bool = False


class Backward(Plain, frozen=True, tag="backward", tag_field="do"):
    """Run backward of one call still pending; what is pending at the end runs then, in order.

    Attributes:
        call: which, modulo their number.
        keep: keep the graph of autograd, so that it stays pending (`retain_graph=True`).
        only: start from this one result (modulo their number) instead of all.
    """

    call: int = 0
    keep: bool = False
    only: int | None = None


Event = (
    Call
    | Reseed
    | Draw
    | Write
    | Replace
    | Relayout
    | Share
    | Feed
    | Scribble
    | Forget
    | Collect
    | Stream
    | Other
    | Backward
)
History = tuple[Event, ...]


def has_autocast(history: History) -> bool:
    """Whether some call is made in autocast."""
    return any(isinstance(event, Call) and event.autocast for event in history)


def without_autocast(history: History) -> History:
    """Return the same history with no call in autocast."""
    plain = (msgspec.structs.replace(e, autocast=None) if isinstance(e, Call) else e for e in history)
    return tuple(plain)


PLAIN_HISTORY: History = (Call((1,)), Call((2,)), Call((3,)), Call((4,)))
"""Un-graphed, capture, replay, replay, with new values each: the fewest calls that show a replay twice."""
