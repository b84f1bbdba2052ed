"""Entries for reductions, matrix products, normalisations, the layers of networks, and losses."""

from __future__ import annotations

from cgverify.fuzzing.building.bounds import FUNCTIONAL
from cgverify.fuzzing.building.calls import call
from cgverify.fuzzing.building.layers import (
    batch_norm,
    channelled,
    conv1d,
    conv2d,
    group_norm,
    instance_norm,
    kernel_fits,
    local_response_norm,
    max_pool,
    pooled,
    running_mean_of_second,
    tracked_batch_norm,
)
from cgverify.fuzzing.building.movement import nll_loss
from cgverify.fuzzing.building.reductions import (
    addmm,
    along,
    baddbmm,
    bias_matches,
    bmm,
    einsum,
    gram,
    inner_matches,
    integral_dtype,
    layer_norm,
    linear,
    matmul,
    reduction,
    weight_matches,
    without_last,
)
from cgverify.fuzzing.pool import Symbol
from cgverify.fuzzing.signatures import (
    FLAG,
    Operation,
    choice,
    length_matches,
    same_shape,
    tensor,
    untrained,
    without_training,
)
from cgverify.fuzzing.values import DTYPES, FLOATS, SIGNED, WIDE_FLOATS

# Of u8, torch makes u8 again.
_TRUTHS = (*SIGNED, "bool")
_WIDE = tensor(WIDE_FLOATS, min_rank=1, nonempty=True)
_WIDE_UNTRAINED = untrained(_WIDE)
_PARTNER = same_shape(WIDE_FLOATS, same_dtype=True)
_MATRIX = tensor(FLOATS, min_rank=2, max_rank=2, nonempty=True)
_VECTOR = tensor(FLOATS, min_rank=1, max_rank=1, nonempty=True)
_STACK = tensor(WIDE_FLOATS, min_rank=3, max_rank=3, nonempty=True)

REDUCTIONS: tuple[Operation, ...] = (
    reduction("sum", DTYPES, result=integral_dtype, bound=lambda a, n: a * n),
    reduction("mean", FLOATS),
    reduction("amax", bound=lambda a, n: a),
    reduction("amin", bound=lambda a, n: a),
    reduction("prod", result=integral_dtype, bound=lambda a, n: a**n, single=True),
    reduction("var", WIDE_FLOATS),
    reduction("std", WIDE_FLOATS),
    reduction("any", _TRUTHS, result=lambda d: "bool", symbol="any_tensor", single=True, discrete=True),
    reduction("all", _TRUTHS, result=lambda d: "bool", symbol="all_tensor", single=True, discrete=True),
    reduction("argmax", result=lambda d: "i64", single=True, discrete=True),
    without_training(reduction("argmin", result=lambda d: "i64", single=True, discrete=True)),
    along("cumsum", family="reduction", function="torch.cumsum", bound=lambda a, n: a * n),
    call(
        "var_mean",
        "reduction",
        (_WIDE,),
        args=lambda refs, types, params: (*refs, -1),
        shapes=lambda types, params: (types[0].shape[:-1],) * 2,
    ),
    call(
        "logsumexp",
        "reduction",
        (_WIDE,),
        args=lambda refs, types, params: (*refs, -1, params["keepdim"]),
        shapes=lambda types, params: (without_last(types[0].shape, keep=params["keepdim"]),),
        parameters={"keepdim": FLAG},
    ),
    call(
        "count_nonzero", "reduction", (tensor(DTYPES),), shapes=lambda types, params: ((),), dtype="i64", discrete=True
    ),
    call("nansum", "reduction", (_WIDE_UNTRAINED,), shapes=lambda types, params: ((),)),
    call("median", "reduction", (_WIDE_UNTRAINED,), shapes=lambda types, params: ((),), bound=lambda types, a: a),
    call(
        "vector_norm",
        "reduction",
        (_WIDE_UNTRAINED,),
        function="torch.linalg.vector_norm",
        shapes=lambda types, params: ((),),
    ),
    call("cumprod", "reduction", (_WIDE_UNTRAINED,), args=lambda refs, types, params: (*refs, 0)),
    call(
        "cummax",
        "reduction",
        (_WIDE_UNTRAINED,),
        args=lambda refs, types, params: (*refs, 0),
        shapes=lambda types, params: (types[0].shape,) * 2,
        dtype=("", "i64"),
        discrete=True,
    ),
)

PRODUCTS: tuple[Operation, ...] = (
    Operation("matmul", "matmul", (tensor(FLOATS, min_rank=1, max_rank=3, nonempty=True), inner_matches), matmul),
    Operation("gram", "matmul", (tensor(FLOATS, min_rank=2, max_rank=3, nonempty=True),), gram),
    Operation("linear", "matmul", (tensor(FLOATS, min_rank=1, nonempty=True), weight_matches), linear),
    Operation(
        "linear_bias", "matmul", (tensor(FLOATS, min_rank=1, nonempty=True), weight_matches, bias_matches), linear
    ),
    Operation("bmm", "matmul", (_STACK,), bmm),
    Operation("baddbmm", "matmul", (_STACK,), baddbmm),
    Operation("einsum", "matmul", (_MATRIX, same_shape(FLOATS, same_dtype=True)), einsum),
    call(
        "outer",
        "matmul",
        (_VECTOR, tensor(FLOATS, min_rank=1, max_rank=1, nonempty=True, same_dtype=True)),
        shapes=lambda types, params: ((*types[0].shape, *types[1].shape),),
        bound=lambda types, a, b: a * b,
    ),
    call(
        "dot",
        "matmul",
        (_VECTOR, same_shape(FLOATS, same_dtype=True)),
        shapes=lambda types, params: ((),),
        bound=lambda types, a, b: a * b * types[0].numel,
    ),
    call(
        "mv",
        "matmul",
        (untrained(_MATRIX), length_matches(-1, FLOATS, same_dtype=True)),
        shapes=lambda types, params: (types[0].shape[:1],),
        bound=lambda types, a, b: a * b * types[0].shape[-1],
    ),
    Operation("addmm", "matmul", (untrained(_MATRIX),), addmm),
)

NORMALISATIONS: tuple[Operation, ...] = (
    along("softmax", family="normalisation", function="torch.softmax"),
    along("log_softmax", family="normalisation", function="torch.nn.functional.log_softmax"),
    Operation("layer_norm", "normalisation", (_WIDE,), layer_norm),
    Operation("group_norm", "normalisation", (channelled(),), group_norm),
    Operation("batch_norm", "normalisation", (channelled(),), batch_norm),
    Operation("tracked_batch_norm", "normalisation", (channelled(), running_mean_of_second), tracked_batch_norm),
    Operation("instance_norm", "normalisation", (channelled(min_rank=3),), instance_norm),
    Operation("local_response_norm", "normalisation", (channelled(min_rank=3),), local_response_norm),
)

LAYERS: tuple[Operation, ...] = (
    call(
        "attention",
        "layer",
        (_STACK, _PARTNER, _PARTNER),
        function=FUNCTIONAL + "scaled_dot_product_attention",
        args=lambda refs, types, params: (*refs, None, 0.0, params["causal"]),
        parameters={"causal": FLAG},
    ),
    Operation("conv1d", "layer", (_STACK, kernel_fits(1)), conv1d),
    Operation("conv2d", "layer", (_STACK, kernel_fits(2)), conv2d),
    Operation("max_pool1d", "layer", (pooled(1),), max_pool(1)),
    Operation("max_pool2d", "layer", (pooled(2),), max_pool(2)),
    call(
        "adaptive_avg_pool2d",
        "layer",
        (_STACK,),
        function=FUNCTIONAL + "adaptive_avg_pool2d",
        args=lambda refs, types, params: (*refs, (2, 2)),
        shapes=lambda types, params: ((*types[0].shape[:-2], 2, 2),),
    ),
    call(
        "pad",
        "layer",
        (tensor(FLOATS, min_rank=1, nonempty=True),),
        function=FUNCTIONAL + "pad",
        args=lambda refs, types, params: (*refs, (1, params["after"]), "constant", 2.0),
        shapes=lambda types, params: ((*types[0].shape[:-1], types[0].shape[-1] + 1 + params["after"]),),
        parameters={"after": choice(0, 1)},
        bound=lambda types, a: max(a, 2.0),
    ),
    call(
        "interpolate",
        "layer",
        (_STACK,),
        function=FUNCTIONAL + "interpolate",
        kwargs={"scale_factor": 2.0},
        shapes=lambda types, params: ((*types[0].shape[:-1], 2 * types[0].shape[-1]),),
        bound=lambda types, a: a,
    ),
)

LOSSES: tuple[Operation, ...] = (
    call(
        "mse_loss",
        "loss",
        (_WIDE, _PARTNER),
        function=FUNCTIONAL + "mse_loss",
        shapes=lambda types, params: ((),),
        symbol=lambda args: Symbol("mse_loss", (*args, None, None, "mean")),
    ),
    Operation(
        "nll_loss",
        "loss",
        (tensor(WIDE_FLOATS, min_rank=2, max_rank=2, nonempty=True), length_matches(0, ("i64",))),
        nll_loss,
    ),
    *(
        call(
            name,
            "loss",
            (_WIDE_UNTRAINED, _PARTNER),
            function=FUNCTIONAL + name,
            shapes=lambda types, params: ((),),
            kwargs=kwargs,
        )
        for name, kwargs in (
            ("l1_loss", {}),
            ("smooth_l1_loss", {}),
            ("huber_loss", {}),
            ("kl_div", {"reduction": "sum"}),
            ("binary_cross_entropy_with_logits", {}),
        )
    ),
    call(
        "cosine_similarity",
        "loss",
        (_WIDE_UNTRAINED, _PARTNER),
        function=FUNCTIONAL + "cosine_similarity",
        kwargs={"dim": -1},
        shapes=lambda types, params: (types[0].shape[:-1],),
    ),
)

TABLE = (*REDUCTIONS, *PRODUCTS, *NORMALISATIONS, *LAYERS, *LOSSES)
