"""Hypothesis strategies for programs: valid by construction, without filters, and without touching torch.

Draws are ordered from plain to exotic, because a shrinker moves towards the first choice; what makes a program exotic
(layouts, aliases, roles, gradients, banned families) shrinks to off. A program is a list of self-contained steps,
which shrinks by deletion.
"""

from __future__ import annotations

from typing import Any

from cgverify.fuzzing.constants import ignore_constants_of_modules
from cgverify.fuzzing.histories import histories
from cgverify.fuzzing.operations import FAMILIES, OPERATIONS
from cgverify.fuzzing.program import Input, Layout, Program, Step
from cgverify.fuzzing.signatures import Parameter

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

ignore_constants_of_modules()

MAX_STEPS = 40
PARTS = 4
# fmt: off
_RARE = frozenset({
    "addmm", "alpha_dropout", "binary_cross_entropy_with_logits", "cosine_similarity", "count_nonzero", "cpu",
    "cummax", "cumprod", "detach", "diagonal", "fmax", "frac", "half", "hstack", "huber_loss", "hypot", "index_add",
    "index_fill", "kl_div", "l1_loss", "logaddexp", "median", "mv", "nansum", "narrow", "new_ones", "new_zeros",
    "randint_like", "ravel", "roll", "smooth_l1_loss", "swapaxes", "take", "tile", "vector_norm", "xlogy",
})
# fmt: on
"""Operations that Thunder knows by name alone: asking PyTorch for the metadata of one costs as much as tracing ten
others, so they are drawn a third as often."""

# Without a number read there is nothing for the other operations on numbers to work on.
_SHARES = {**dict.fromkeys(_RARE, 1), "item": 9}
_BY_FAMILY = {
    family: [op for op in OPERATIONS.values() if op.family == family for _ in range(_SHARES.get(op.name, 3))]
    for family in FAMILIES
}
_WEIGHTS = {"elementwise": 5, "reduction": 2, "view": 2, "number": 2, "in-place": 2}
_OUTPUTS = (-1, -2, -3, 0, 1, 2, -4, -5, None, 5)
_CHOICE = st.integers(0, 15)
_WHOLES = (*((3,), (2, 3), (3, 3), (2, 3, 4), (2, 1, 3), (4, 1), (1,), ()) * 3, (0,), (2, 0), (0, 3))


# For tests of your own: `settings.load_profile("cgverify-gate")`. A program may take long, and most are big.
_BASE = settings(deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("cgverify-gate", _BASE, derandomize=True, database=None)
settings.register_profile("cgverify-dev", _BASE)
settings.register_profile("cgverify-nightly", _BASE, max_examples=10_000)


@st.composite
def programs(
    draw: st.DrawFn, *, gradients: bool = False, modules: bool = True, max_steps: int = MAX_STEPS, history: bool = True
) -> Program:
    """Draw a program.

    Args:
        draw: Hypothesis' own.
        gradients: whether inputs may require gradients (only `thunder.jit` computes them).
        modules: whether inputs may be parameters and buffers.
        max_steps: most steps.
        history: whether to draw a call history; else the program has the plain one of four calls.
    """
    banned = draw(st.frozensets(st.sampled_from(FAMILIES[1:]), max_size=5))
    families = [family for family in FAMILIES if family not in banned for _ in range(_WEIGHTS.get(family, 1))]
    inputs = draw(_inputs(gradients, modules))
    # Several lists, because Hypothesis draws short ones: about ten steps find operands, and still there may be none.
    parts = [draw(st.lists(_steps(families), max_size=max_steps // PARTS)) for _ in range(PARTS)]
    steps = tuple(step for part in parts for step in part)
    outputs = draw(st.lists(st.sampled_from(_OUTPUTS), min_size=1, max_size=4))
    program = Program(inputs=inputs, steps=steps, outputs=tuple(outputs))
    if not history:
        return program
    return Program(inputs=inputs, steps=steps, outputs=tuple(outputs), history=draw(histories(training=gradients)))


@st.composite
def _steps(draw: st.DrawFn, families: list[str]) -> Step:
    """Draw a step; parameters at their defaults are left out, which keeps a shrunk program short."""
    operation = draw(st.sampled_from(_BY_FAMILY[draw(st.sampled_from(families))]))
    args = tuple(draw(_CHOICE) for _ in operation.operands)
    params = {name: draw(_parameter(parameter)) for name, parameter in operation.parameters.items()}
    changed = {name: value for name, value in params.items() if value != operation.parameters[name].default}
    return Step(operation.name, args, changed)


def _parameter(parameter: Parameter) -> st.SearchStrategy[Any]:
    match parameter.kind:
        case "flag":
            return st.booleans()
        case "int":
            return st.integers(0, 7)
        case _:
            return st.sampled_from(parameter.choices)


@st.composite
def _inputs(draw: st.DrawFn, gradients: bool, modules: bool) -> tuple[Input, ...]:
    """Draw inputs whose shapes fit together: cuts of one shape, most of them broadcasting with each other."""
    whole = draw(st.sampled_from(_WHOLES))
    shapes = dict.fromkeys((whole, whole[1:], (*whole[:-1], 1), (), (*whole[-1:], *whole[-1:]), (1, *whole[1:])))
    trains = gradients and draw(st.booleans())
    owned = modules and draw(st.booleans())
    drawn = draw(st.lists(_input(tuple(shapes), trains, owned), min_size=1, max_size=4))
    return tuple(_without_impossible_alias(entry, drawn[:position]) for position, entry in enumerate(drawn))


@st.composite
def _input(draw: st.DrawFn, shapes: tuple[tuple[int, ...], ...], trains: bool, owned: bool) -> Input:
    exotic = draw(st.integers(0, 5)) == 5
    return Input(
        shape=draw(st.sampled_from(shapes)),
        dtype=draw(st.sampled_from(("f32", "f32", "f64", "i64", "bool", "bf16", "f16", "i32", "u8"))),
        layout=draw(st.sampled_from(("contiguous", "transposed", "strided", "offset", "expanded")))
        if exotic
        else "contiguous",
        device=draw(st.sampled_from(("cuda", "cuda", "cuda", "cpu"))) if exotic else "cuda",
        role=draw(st.sampled_from(("arg", "parameter", "buffer"))) if owned else "arg",
        alias_of=draw(st.sampled_from((None, None, None, None, None, None, 0, 1))),
        requires_grad=trains and draw(st.booleans()),
        values=draw(st.sampled_from(("integers", "normal", "normal", "special"))),
        seed=draw(st.integers(0, 3)),
    )


def _without_impossible_alias(entry: Input, earlier: list[Input]) -> Input:
    """Turn an alias that cannot be into an input of its own; aliases are arguments of the same dtype, size and
    device, and some are shifted by one element.
    """
    base = None if entry.alias_of is None or entry.alias_of >= len(earlier) else earlier[entry.alias_of]
    if base is None or base.alias_of is not None or (base.role, entry.role) != ("arg", "arg"):
        return msgspec.structs.replace(entry, alias_of=None)
    layout: Layout = "offset" if entry.layout == "offset" and base.layout == "contiguous" else "contiguous"
    return msgspec.structs.replace(base, alias_of=entry.alias_of, requires_grad=False, layout=layout)
