"""The vocabulary: one declarative entry per operation, from plain to exotic within each family.

Most entries are one line, made by a helper for their kind (`unary`, `binary`, `reduction`, ...) in
:mod:`cgverify.fuzzing.building`. A bound rule takes the bounds of the operands and returns that of the result (see
TensorType.bound); no rule means: not exact any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cgverify.fuzzing.building.bounds import FUNCTIONAL, add_bound, mul_bound, same_bound
from cgverify.fuzzing.building.elementwise import addcmul, binary, clamp, lerp, masked_fill, scalar, unary, where
from cgverify.fuzzing.building.movement import (
    cat,
    clone,
    embedding,
    flip,
    index_select,
    stack,
    to_device,
    to_dtype,
    topk,
    triangle,
)
from cgverify.fuzzing.building.reductions import (
    along,
    gram,
    inner_matches,
    integral_dtype,
    layer_norm,
    linear,
    matmul,
    reduction,
    weight_matches,
)
from cgverify.fuzzing.building.sources import (
    arange,
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
from cgverify.fuzzing.building.views import (
    KEY_PARAMETERS,
    chunk,
    contiguous,
    divisible,
    expand,
    flatten,
    getitem,
    permute,
    ravel,
    reshape,
    select,
    squeeze,
    transpose,
    unflatten,
    unsqueeze,
)
from cgverify.fuzzing.building.writes import copy_in_place, in_place_binary, in_place_unary, setitem, setitem_scalar
from cgverify.fuzzing.signatures import (
    INT,
    Accepts,
    Operation,
    Parameter,
    broadcastable,
    choice,
    destination,
    number,
    same_shape,
    source,
    tensor,
    untrained,
)
from cgverify.fuzzing.values import DTYPES, FLOATS, INTEGERS, NUMERIC, WIDE_FLOATS


def _operation(
    name: str, family: str, operands: tuple[Accepts, ...], build: Any, parameters: Mapping[str, Parameter] | None = None
) -> Operation:
    return Operation(name, family, operands, build, parameters or {})


_ANY = tensor(DTYPES)
_RANKED = tensor(DTYPES, min_rank=1, nonempty=True)
_FLOAT = tensor(FLOATS)

_TABLE = (
    binary("add", bound=add_bound),
    binary("mul", bound=mul_bound),
    binary("sub", bound=add_bound),
    unary("neg", NUMERIC, bound=same_bound),
    unary("relu", function=FUNCTIONAL + "relu", bound=same_bound),
    scalar("add", (1.0, 2, -0.5), bound=add_bound),
    scalar("mul", (2.0, 3, 0.5), bound=mul_bound),
    unary("abs", NUMERIC, symbol="torch_abs", bound=same_bound),
    unary("tanh"),
    unary("sin"),
    unary("cos"),
    unary("exp"),
    unary("sqrt"),
    unary("rsqrt"),
    unary("reciprocal"),
    unary("log1p"),
    unary("erf"),
    unary("gelu", function=FUNCTIONAL + "gelu"),
    unary("silu", function=FUNCTIONAL + "silu"),
    unary("floor", bound=same_bound, discrete=True),
    unary("ceil", bound=same_bound, discrete=True),
    unary("trunc", bound=same_bound, discrete=True),
    unary("round", symbol="torch_round", bound=same_bound, discrete=True),
    unary("isfinite", dtype="bool", discrete=True),
    unary("bitwise_not", (*INTEGERS, "bool")),
    binary("true_divide", FLOATS),
    binary("maximum", numbers=False, bound=max),
    binary("minimum", numbers=False, bound=max),
    binary("atan2", FLOATS, numbers=False),
    binary("eq", dtype="bool", discrete=True),
    binary("ne", dtype="bool", discrete=True),
    binary("lt", dtype="bool", discrete=True),
    binary("le", dtype="bool", discrete=True),
    binary("gt", dtype="bool", discrete=True),
    binary("ge", dtype="bool", discrete=True),
    binary("logical_and", DTYPES, numbers=False, dtype="bool", discrete=True),
    binary("logical_or", DTYPES, numbers=False, dtype="bool", discrete=True),
    binary("bitwise_and", (*INTEGERS, "bool"), numbers=False),
    binary("bitwise_xor", (*INTEGERS, "bool"), numbers=False),
    scalar("pow", (2, 3), bound=lambda a, n: a**n),
    scalar("fmod", (3.0,), FLOATS, bound=lambda a, b: b, discrete=True),
    scalar("remainder", (3,), INTEGERS),
    scalar("true_divide", (2.0, 3.0), FLOATS),
    _operation("clamp", "elementwise", (_FLOAT,), clamp, {"limit": choice(1.0, 0.5)}),
    _operation("lerp", "elementwise", (_FLOAT, same_shape(FLOATS, same_dtype=True)), lerp),
    _operation("addcmul", "elementwise", (_FLOAT, *[same_shape(FLOATS, same_dtype=True)] * 2), addcmul),
    _operation(
        "where", "elementwise", (tensor(), broadcastable(numbers=False, host_scalar=False), same_shape(DTYPES)), where
    ),
    _operation("masked_fill", "elementwise", (_FLOAT, same_shape(DTYPES)), masked_fill),
    reduction("sum", DTYPES, result=integral_dtype, bound=lambda a, n: a * n),
    reduction("mean", FLOATS),
    reduction("amax", bound=lambda a, n: a),
    reduction("amin", bound=lambda a, n: a),
    reduction("prod", result=integral_dtype, bound=lambda a, n: a**n, single=True),
    reduction("var", WIDE_FLOATS),
    reduction("any", DTYPES, result=lambda d: "bool", symbol="any_tensor", single=True, discrete=True),
    reduction("all", DTYPES, result=lambda d: "bool", symbol="all_tensor", single=True, discrete=True),
    reduction("argmax", result=lambda d: "i64", single=True, discrete=True),
    reduction("argmin", result=lambda d: "i64", single=True, discrete=True),
    along("cumsum", family="reduction", function="torch.cumsum", bound=lambda a, n: a * n),
    _operation("matmul", "matmul", (tensor(FLOATS, min_rank=1, max_rank=3, nonempty=True), inner_matches), matmul),
    _operation("gram", "matmul", (tensor(FLOATS, min_rank=2, max_rank=3, nonempty=True),), gram),
    _operation("linear", "matmul", (tensor(FLOATS, min_rank=1, nonempty=True), weight_matches), linear),
    along("softmax", family="normalisation", function="torch.softmax"),
    along("log_softmax", family="normalisation", function="torch.nn.functional.log_softmax"),
    _operation("layer_norm", "normalisation", (tensor(WIDE_FLOATS, min_rank=1, nonempty=True),), layer_norm),
    _operation("reshape", "view", (tensor(DTYPES, nonempty=True),), reshape, {"shape": INT}),
    _operation("transpose", "view", (tensor(DTYPES, min_rank=2),), transpose, {"dim": INT}),
    _operation("getitem", "view", (_RANKED,), getitem, KEY_PARAMETERS),
    _operation("select", "view", (_RANKED,), select, {"dim": INT, "index": INT}),
    _operation("unsqueeze", "view", (_ANY,), unsqueeze, {"dim": INT}),
    _operation("squeeze", "view", (tensor(DTYPES, min_rank=1),), squeeze, {"dim": INT}),
    _operation("flatten", "view", (tensor(DTYPES, min_rank=1),), flatten),
    _operation("ravel", "view", (untrained(tensor(DTYPES, min_rank=1)),), ravel),
    _operation("permute", "view", (tensor(DTYPES, min_rank=1),), permute, {"turn": INT}),
    _operation("expand", "view", (tensor(DTYPES, max_rank=3),), expand),
    _operation("view", "view", (tensor(DTYPES, max_rank=3),), unflatten),
    _operation("contiguous", "view", (_ANY,), lambda pool, refs, params: contiguous(pool, refs[0])),
    _operation("chunk", "view", (divisible,), chunk, {"dim": INT}),
    _operation("flip", "joining", (_RANKED,), flip, {"dim": INT}),
    _operation("cat", "joining", (_RANKED, same_shape(DTYPES, same_dtype=True)), cat, {"dim": INT}),
    _operation("stack", "joining", (_ANY, same_shape(DTYPES, same_dtype=True)), stack, {"dim": INT}),
    triangle("tril"),
    triangle("triu"),
    _operation("topk", "indexing", (tensor(WIDE_FLOATS, min_rank=1, nonempty=True),), topk),
    _operation(
        "index_select", "indexing", (_RANKED, tensor(("i64",), min_rank=1, max_rank=1)), index_select, {"dim": INT}
    ),
    _operation(
        "embedding", "indexing", (tensor(FLOATS, min_rank=2, max_rank=2, nonempty=True), tensor(("i64",))), embedding
    ),
    _operation(
        "to_dtype",
        "conversion",
        (_ANY,),
        to_dtype,
        {"dtype": choice("f64", "f32", "bf16", "f16", "i64", "i32", "bool")},
    ),
    _operation("clone", "conversion", (_ANY,), clone),
    factory("zeros", 0.0),
    factory("ones", 1.0),
    factory("full", 2.0),
    like("zeros_like", 0.0),
    like("ones_like", 1.0),
    like("full_like", 2.0),
    _operation("arange", "factory", (), arange),
    _operation("item", "number", (tensor((*WIDE_FLOATS, "i64"), nonempty=True),), item),
    number_arithmetic("mul", mul_bound),
    number_arithmetic("add", add_bound),
    _operation("number_full", "number", (template(FLOATS), number("float")), number_full),
    _operation("copy_", "in-place", (destination(), source(same_shape(DTYPES, same_dtype=True))), copy_in_place),
    in_place_binary("add", add_bound),
    in_place_binary("mul", mul_bound),
    in_place_binary("sub", add_bound),
    in_place_unary("zero", lambda a: a, symbol="zeros_like"),
    in_place_unary("relu", same_bound),
    in_place_unary("tanh", None),
    in_place_unary("clamp", lambda a: min(a, 1.0), (-1.0, 1.0)),
    _operation(
        "setitem",
        "in-place",
        (destination(min_rank=1), source(tensor(DTYPES, nonempty=True), itself=False)),
        setitem,
        KEY_PARAMETERS,
    ),
    _operation("setitem_scalar", "in-place", (destination(FLOATS, min_rank=1),), setitem_scalar, KEY_PARAMETERS),
    random_draw("rand"),
    random_draw("randn"),
    random_like("rand_like"),
    _operation("dropout", "random", (tensor(WIDE_FLOATS, cpu=False),), dropout),
    random_like("randn_like"),
    random_draw("randint", bound=4.0),
    _operation("to_device", "transfer", (_ANY,), to_device, {"device": choice("cpu", "cuda")}),
)

OPERATIONS: dict[str, Operation] = {operation.name: operation for operation in _TABLE}
"""Every operation, by name, from plain to exotic."""

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(operation.family for operation in _TABLE))
"""The families that a strategy may ban."""
