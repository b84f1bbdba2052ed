"""Entries for factories, Python numbers, in-place writes and random draws: what values alone do not describe."""

from __future__ import annotations

from cgverify.fuzzing.building.bounds import FUNCTIONAL, add_bound, mul_bound, same_bound
from cgverify.fuzzing.building.calls import call, write
from cgverify.fuzzing.building.indexing import (
    index_add_in_place,
    index_copy_in_place,
    index_put_in_place,
    scatter_add_in_place,
    scatter_in_place,
    setitem_tensor,
)
from cgverify.fuzzing.building.sources import (
    SHAPES,
    arange,
    arange_float,
    constant,
    dropout,
    factory,
    item,
    like,
    number_arithmetic,
    number_full,
    random_draw,
    random_like,
    template,
)
from cgverify.fuzzing.building.views import KEY_PARAMETERS
from cgverify.fuzzing.building.writes import (
    copy_in_place,
    in_place_binary,
    in_place_unary,
    masked_fill_in_place,
    read_and_reset,
    setitem,
    setitem_mask,
    setitem_scalar,
)
from cgverify.fuzzing.signatures import (
    FLAG,
    INT,
    Operation,
    choice,
    destination,
    length_matches,
    number,
    same_shape,
    source,
    tensor,
    untrained,
    without_training,
)
from cgverify.fuzzing.values import DTYPES, FLOATS, INTEGERS, NUMERIC, WIDE_FLOATS

_INTO = destination(FLOATS)
_INTO_ROWS = destination(WIDE_FLOATS, min_rank=1)
_FROM = source(same_shape(FLOATS, same_dtype=True))
_FROM_ROWS = source(same_shape(WIDE_FLOATS, same_dtype=True), itself=False)
_PERMUTED = source(length_matches(0, NUMERIC), itself=False)

FACTORIES: tuple[Operation, ...] = (
    factory("zeros", 0.0),
    factory("ones", 1.0),
    factory("full", 2.0),
    like("zeros_like", 0.0),
    like("ones_like", 1.0),
    like("full_like", 2.0),
    Operation("arange", "factory", (), arange),
    Operation("arange_float", "factory", (), arange_float),
    Operation("constant", "factory", (), constant),
    *(
        call(
            f"new_{name}",
            "factory",
            (template(FLOATS),),
            function=f"Tensor.new_{name}",
            args=lambda refs, types, params: (*refs, SHAPES[params["shape"] % len(SHAPES)]),
            shapes=lambda types, params: (SHAPES[params["shape"] % len(SHAPES)],),
            parameters={"shape": INT},
            bound=lambda types, a, fill=fill: fill,
        )
        for name, fill in (("zeros", 0.0), ("ones", 1.0))
    ),
)

NUMBERS: tuple[Operation, ...] = (
    Operation("item", "number", (tensor((*WIDE_FLOATS, "i64"), nonempty=True),), item),
    number_arithmetic("mul", mul_bound),
    number_arithmetic("add", add_bound),
    number_arithmetic("sub", add_bound),
    Operation("number_full", "number", (template(FLOATS), number("float")), number_full),
)

WRITES: tuple[Operation, ...] = (
    Operation("copy_", "in-place", (destination(), source(same_shape(DTYPES, same_dtype=True))), copy_in_place),
    in_place_binary("add", add_bound),
    in_place_binary("mul", mul_bound),
    in_place_binary("sub", add_bound),
    in_place_binary("div", None, FLOATS),
    in_place_binary("bitwise_and", None, INTEGERS),
    in_place_binary("gt", lambda a, b: 1.0),
    in_place_unary("zero", lambda a: a, symbol="zeros_like"),
    in_place_unary("relu", same_bound),
    in_place_unary("tanh", None),
    in_place_unary("clamp", lambda a: min(a, 1.0), (-1.0, 1.0)),
    in_place_unary("neg", same_bound),
    in_place_unary("exp", None),
    in_place_unary("abs", same_bound, symbol="torch_abs"),
    in_place_unary("sqrt", None),
    in_place_unary("sin", None),
    in_place_unary("reciprocal", None),
    in_place_unary("floor", same_bound),
    without_training(in_place_unary("round", same_bound, symbol="torch_round")),
    in_place_unary("pow", lambda a: a * a, (2,)),
    in_place_unary("fmod", lambda a: min(a, 3.0), (3.0,)),
    in_place_unary("cumsum", None, (0,), min_rank=1),
    in_place_unary("tril", same_bound, min_rank=2),
    Operation(
        "read_and_reset",
        "in-place",
        (destination(WIDE_FLOATS),),
        read_and_reset,
        {"by": choice("item", "cpu"), "write": choice("zero_", "mul_")},
    ),
    write("addcmul_", (_INTO, _FROM, _FROM), bound=lambda types, a, b, c: a + b * c),
    without_training(write("lerp_", (_INTO, _FROM), args=lambda refs, types, params: (*refs, 0.5))),
    Operation("masked_fill_", "in-place", (_INTO, source(same_shape(DTYPES), itself=False)), masked_fill_in_place),
    Operation(
        "setitem",
        "in-place",
        (destination(min_rank=1), source(tensor(DTYPES, nonempty=True), itself=False)),
        setitem,
        KEY_PARAMETERS,
    ),
    Operation("setitem_scalar", "in-place", (destination(FLOATS, min_rank=1),), setitem_scalar, KEY_PARAMETERS),
    Operation("setitem_mask", "in-place", (_INTO, source(same_shape(DTYPES), itself=False)), setitem_mask),
    Operation("setitem_tensor", "in-place", (_INTO_ROWS, _FROM_ROWS, _PERMUTED), setitem_tensor),
    Operation("index_copy_", "in-place", (_INTO_ROWS, _FROM_ROWS, _PERMUTED), index_copy_in_place),
    without_training(Operation("index_add_", "in-place", (_INTO_ROWS, _FROM_ROWS, _PERMUTED), index_add_in_place)),
    Operation("index_put_", "in-place", (_INTO_ROWS, _FROM_ROWS, _PERMUTED), index_put_in_place, {"accumulate": FLAG}),
    Operation("scatter_", "in-place", (_INTO_ROWS, _FROM_ROWS), scatter_in_place, {"dim": INT}),
    Operation("scatter_add_", "in-place", (_INTO_ROWS, _FROM_ROWS), scatter_add_in_place, {"dim": INT}),
)

RANDOM: tuple[Operation, ...] = (
    random_draw("rand"),
    random_draw("randn"),
    random_like("rand_like"),
    Operation("dropout", "random", (tensor(WIDE_FLOATS, cpu=False),), dropout),
    random_like("randn_like"),
    random_draw("randint", bound=4.0),
    call(
        "rrelu",
        "random",
        (tensor(WIDE_FLOATS, cpu=False),),
        function=FUNCTIONAL + "rrelu",
        args=lambda refs, types, params: (*refs, 0.125, 0.25, True),
        random=True,
    ),
    call(
        "alpha_dropout",
        "random",
        (untrained(tensor(WIDE_FLOATS, cpu=False)),),
        function=FUNCTIONAL + "alpha_dropout",
        args=lambda refs, types, params: (*refs, 0.5, True),
        random=True,
    ),
    call(
        "randint_like",
        "random",
        (template(WIDE_FLOATS, cpu=False),),
        args=lambda refs, types, params: (*refs, params["high"]),
        parameters={"high": choice(4, 2)},
        bound=lambda types, a: 4.0,
        random=True,
    ),
)
