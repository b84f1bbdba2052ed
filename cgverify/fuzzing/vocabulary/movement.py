"""Entries for operations that move elements: views, joins, indexing, conversions, host transfers."""

from __future__ import annotations

from cgverify.fuzzing.building.calls import call
from cgverify.fuzzing.building.indexing import (
    gather,
    getitem_tensor,
    index_add,
    index_copy,
    index_fill,
    index_put,
    one_hot,
    scatter,
    scatter_add,
    sort,
    take,
    take_along_dim,
)
from cgverify.fuzzing.building.movement import (
    cat,
    cat_twice,
    clone,
    cpu,
    embedding,
    flip,
    index_select,
    roll,
    stack,
    to_device,
    to_dtype,
    to_like,
    topk,
    triangle,
)
from cgverify.fuzzing.building.views import (
    KEY_PARAMETERS,
    chunk,
    contiguous,
    diagonal,
    divisible,
    expand,
    expand_as,
    flatten,
    getitem,
    movedim,
    narrow,
    newaxis,
    permute,
    ravel,
    reshape,
    select,
    several_rows,
    split,
    squeeze,
    swapaxes,
    transpose,
    turn,
    unbind,
    unflatten,
    unsqueeze,
)
from cgverify.fuzzing.signatures import (
    FLAG,
    INT,
    Operation,
    choice,
    length_matches,
    same_shape,
    tensor,
    untrained,
    without_training,
)
from cgverify.fuzzing.values import DTYPES, FLOATS, NUMERIC, WIDE_FLOATS

_ANY = tensor(DTYPES)
_DIMENSIONED = tensor(DTYPES, min_rank=1)
_RANKED = tensor(DTYPES, min_rank=1, nonempty=True)
_MATRIX = tensor(DTYPES, min_rank=2)
_WIDE = tensor(WIDE_FLOATS, min_rank=1, nonempty=True)
_PARTNER = same_shape(WIDE_FLOATS, same_dtype=True)
_ORDERED = same_shape(NUMERIC)
_POSITIONS = tensor(("i64",), min_rank=1, max_rank=1)
_PERMUTED = length_matches(0, NUMERIC)

VIEWS: tuple[Operation, ...] = (
    Operation("reshape", "view", (tensor(DTYPES, nonempty=True),), reshape, {"shape": INT}),
    Operation("transpose", "view", (_MATRIX,), transpose, {"dim": INT}),
    Operation("getitem", "view", (_RANKED,), getitem, KEY_PARAMETERS),
    Operation("select", "view", (_RANKED,), select, {"dim": INT, "index": INT}),
    Operation("unsqueeze", "view", (_ANY,), unsqueeze, {"dim": INT}),
    Operation("squeeze", "view", (_DIMENSIONED,), squeeze, {"dim": INT}),
    Operation("flatten", "view", (_DIMENSIONED,), flatten),
    Operation("ravel", "view", (untrained(_DIMENSIONED),), ravel),
    Operation("permute", "view", (_DIMENSIONED,), permute, {"turn": INT}),
    Operation("t", "view", (tensor(DTYPES, min_rank=2, max_rank=2),), turn),
    Operation("movedim", "view", (_MATRIX,), movedim),
    Operation("swapaxes", "view", (untrained(_MATRIX),), swapaxes),
    Operation("expand", "view", (tensor(DTYPES, max_rank=3),), expand),
    Operation("expand_as", "view", (tensor(DTYPES, max_rank=3), tensor(DTYPES, max_rank=3)), expand_as),
    Operation("view", "view", (tensor(DTYPES, max_rank=3),), unflatten),
    Operation("newaxis", "view", (tensor(DTYPES, max_rank=3),), newaxis),
    Operation("diagonal", "view", (_MATRIX,), diagonal),
    Operation("narrow", "view", (untrained(_RANKED),), narrow, {"start": INT}),
    Operation("contiguous", "view", (_ANY,), lambda pool, refs, params: contiguous(pool, refs[0])),
    call("detach", "view", (_ANY,), function="torch.detach", bound=lambda types, a: a, view=True, tracked=False),
    Operation("chunk", "view", (divisible,), chunk, {"dim": INT}),
    Operation("split", "view", (divisible,), split, {"dim": INT}),
    Operation("unbind", "view", (several_rows,), unbind),
)

JOINS: tuple[Operation, ...] = (
    without_training(Operation("flip", "joining", (_RANKED,), flip, {"dim": INT})),
    Operation("cat", "joining", (_RANKED, same_shape(DTYPES, same_dtype=True)), cat, {"dim": INT}),
    Operation("cat_twice", "joining", (_RANKED, same_shape(DTYPES, same_dtype=True)), cat_twice),
    Operation("stack", "joining", (_ANY, same_shape(DTYPES, same_dtype=True)), stack, {"dim": INT}),
    triangle("tril"),
    triangle("triu"),
    call(
        "repeat",
        "joining",
        (tensor(DTYPES, max_rank=2),),
        function="Tensor.repeat",
        args=lambda refs, types, params: (*refs, 2, *(1 for _ in types[0].shape)),
        shapes=lambda types, params: ((2, *types[0].shape),),
        bound=lambda types, a: a,
    ),
    Operation("roll", "joining", (untrained(_RANKED),), roll, {"dim": INT}),
    call(
        "tile",
        "joining",
        (untrained(_RANKED),),
        args=lambda refs, types, params: (*refs, (2,)),
        shapes=lambda types, params: ((*types[0].shape[:-1], 2 * types[0].shape[-1]),),
        bound=lambda types, a: a,
    ),
    call(
        "hstack",
        "joining",
        (untrained(tensor(DTYPES, min_rank=1, max_rank=1)), same_shape(DTYPES, same_dtype=True)),
        args=lambda refs, types, params: (refs,),
        shapes=lambda types, params: ((2 * types[0].shape[0],),),
        bound=lambda types, a, b: max(a, b),
    ),
)

INDEXING: tuple[Operation, ...] = (
    Operation("topk", "indexing", (_WIDE,), topk),
    Operation("sort", "indexing", (_WIDE,), sort, {"dim": INT, "descending": FLAG}),
    call(
        "argsort",
        "indexing",
        (_WIDE,),
        args=lambda refs, types, params: (*refs, 0),
        dtype="i64",
        discrete=True,
    ),
    Operation("index_select", "indexing", (_RANKED, _POSITIONS), index_select, {"dim": INT}),
    Operation(
        "embedding", "indexing", (tensor(FLOATS, min_rank=2, max_rank=2, nonempty=True), tensor(("i64",))), embedding
    ),
    Operation("getitem_tensor", "indexing", (_RANKED, _POSITIONS), getitem_tensor),
    Operation("gather", "indexing", (_WIDE, _ORDERED), gather, {"dim": INT}),
    Operation("take_along_dim", "indexing", (_WIDE, _ORDERED), take_along_dim, {"dim": INT}),
    Operation("scatter", "indexing", (_WIDE, _PARTNER), scatter, {"dim": INT}),
    Operation("scatter_add", "indexing", (_WIDE, _PARTNER), scatter_add, {"dim": INT}),
    Operation("index_copy", "indexing", (_WIDE, _PARTNER, _PERMUTED), index_copy),
    Operation("index_put", "indexing", (_WIDE, _PARTNER, _PERMUTED), index_put, {"accumulate": FLAG}),
    Operation("index_add", "indexing", (untrained(_WIDE), _PARTNER, _PERMUTED), index_add),
    Operation("index_fill", "indexing", (untrained(_WIDE), _PERMUTED), index_fill),
    Operation("take", "indexing", (untrained(_WIDE), _POSITIONS), take),
    Operation("one_hot", "indexing", (tensor(("i64",), nonempty=True),), one_hot),
)

CONVERSIONS: tuple[Operation, ...] = (
    Operation(
        "to_dtype",
        "conversion",
        (_ANY,),
        to_dtype,
        {"dtype": choice("f64", "f32", "bf16", "f16", "i64", "i32", "bool", "u8"), "copy": FLAG},
    ),
    Operation("to_like", "conversion", (_ANY, tensor(FLOATS)), to_like),
    Operation("clone", "conversion", (_ANY,), clone),
    call(
        "half",
        "conversion",
        (untrained(tensor(FLOATS)),),
        function="Tensor.half",
        dtype="f16",
        view=True,
        bound=lambda types, a: a,
    ),
)

TRANSFERS: tuple[Operation, ...] = (
    Operation("to_device", "transfer", (_ANY,), to_device, {"device": choice("cpu", "cuda")}),
    Operation("cpu", "transfer", (untrained(_ANY),), cpu),
)

TABLE = (*VIEWS, *JOINS, *INDEXING, *CONVERSIONS)
