"""Ids of Thunder's torch executor, sorted by what they mean to a CUDA graph.

Only data. `CAPTURABLE` is an allow-list: each entry launches a fixed sequence of kernels for fixed shapes, waits for
nothing, and reads no host memory. Ids that torch runs with a hidden synchronisation or host copy (most of
`torch.linalg`, histograms without bounds, losses with host targets) are absent on purpose.
"""

from __future__ import annotations

from typing import Any

from thunder.core.prims import PrimIDs


def _ids(text: str) -> frozenset[str]:
    return frozenset(text.split())


VIEWS = _ids(
    "adjoint as_strided atleast_1d atleast_2d atleast_3d broadcast_tensors chunk detach diagonal dsplit expand "
    "flatten hsplit imag meshgrid moveaxis movedim narrow permute positive ravel real reshape reshape_as select "
    "shallow_copy split split_with_sizes squeeze swapaxes swapdims tensor_split torch_prims_reshape_impl "
    "torch_slice_prim_impl transpose unbind unfold unsafe_chunk unsafe_split unsqueeze update_aliases view "
    "view_as view_as_complex view_as_real vsplit"
)
"""Ops that launch no kernel (or, like `reshape`, may not): results may share the memory of the arguments."""

MAY_ALIAS = VIEWS | _ids(
    "__getitem__ contiguous to bfloat16 bool byte char double float half int long short conj conj_physical "
    "resolve_conj resolve_neg dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout "
    "cartesian_prod torch_stride_order_prim_impl pad torch_pad_prim_impl sum_to_size tile repeat float_power "
    "bitcast einsum feature_dropout"
)
"""Ops with kernels whose results may nevertheless be, or share memory with, an argument."""

CONVERSIONS = _ids("to bfloat16 bool byte char double float half int long short")
"""Ops that return their argument or a copy of it, and always a copy where the dtype changes."""

IDENTITIES = _ids("update_aliases shallow_copy")
"""Ops that return their arguments themselves, position by position."""

ELEMENTWISE = _ids(
    "abs absolute acos acosh add addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin "
    "asinh atan atan2 atanh bitcast bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift "
    "bitwise_xor ceil celu clamp clamp_max clamp_min clip clone complex copysign cos cosh deg2rad digamma div "
    "divide elu eq erf erfc erfcx erfinv exp exp2 expm1 fix floor floor_divide fmax fmin fmod frac gammaln gcd ge "
    "gelu greater greater_equal gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot i0 i0e i1 i1e "
    "isclose isfinite isinf isnan isneginf isposinf isreal lcm ldexp le leaky_relu lerp less less_equal lgamma "
    "log log10 log1p log2 log_ndtr logaddexp logaddexp2 logical_and logical_or logical_xor logit logsigmoid lt "
    "maximum minimum mish mul multiply nan_to_num ndtr ndtri ne neg negative nextafter not_equal polygamma pow "
    "prelu rad2deg reciprocal relu relu6 remainder round rsqrt rsub selu sgn sigmoid sign signbit silu sin sinc "
    "sinh softplus softshrink softsign sqrt square sub subtract tan tanh tanhshrink threshold torch_div_prim_impl "
    "torch_erfcinv_impl true_divide trunc where xlog1py xlogy zeta masked_fill"
)

REDUCTIONS = _ids(
    "all amax amin aminmax any argmax argmin count_nonzero cummax cummin cumprod cumsum logcumsumexp logsumexp "
    "max mean min nanmean nansum norm prod std std_mean sum var var_mean vector_norm frobenius_norm trace dist "
    "log_softmax softmax"
)

LINEAR = _ids(
    "addbmm addmm addmv addr baddbmm bilinear bmm chain_matmul convolution conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d conv_transpose3d dot einsum inner kron linear matmul mm mv outer tensordot vdot vecdot "
    "torch.linalg.multi_dot"
)

SHAPING = _ids(
    "block_diag cat channel_shuffle column_stack constant_pad_nd diag_embed diff dstack flip fliplr flipud gather "
    "hstack index_add index_copy index_put index_select pixel_shuffle pixel_unshuffle repeat_interleave roll "
    "rot90 row_stack scatter scatter_add scatter_reduce stack take take_along_dim tril triu vstack slice_scatter "
    "select_scatter diagonal_scatter sort argsort topk searchsorted bucketize isin expand_copy permute_copy "
    "squeeze_copy unsqueeze_copy transpose_copy view_copy narrow_copy select_copy"
)

FUNCTIONAL = _ids(
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d avg_pool3d max_pool1d "
    "max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices "
    "max_pool2d_with_indices_backward max_pool3d_with_indices_backward batch_norm instance_norm layer_norm "
    "group_norm local_response_norm embedding one_hot nll_loss torch_nll_loss_backward_impl mse_loss l1_loss "
    "smooth_l1_loss huber_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits cosine_similarity "
    "pairwise_distance interpolate upsample fold scaled_dot_product_attention "
    "torch.ops.aten._adaptive_avg_pool2d_backward torch.ops.aten._log_softmax_backward_data "
    "torch.ops.aten.embedding_backward torch.ops.aten.log_sigmoid_backward "
    "sdpaex_grad_forward_scaled_dot_product_efficient_attention "
    "sdpafx_grad_forward_scaled_dot_product_efficient_attention "
    "sdpaex_scaled_dot_product_efficient_attention_backward "
    "sdpafx_scaled_dot_product_efficient_attention_backward"
)

FACTORIES = _ids(
    "arange full full_like ones ones_like zeros zeros_like new_full new_ones new_zeros empty new_empty empty_like"
)

RANDOM = _ids(
    "uniform rand rand_like randn randn_like randint randint_like bernoulli dropout dropout1d dropout2d dropout3d "
    "alpha_dropout feature_dropout feature_alpha_dropout native_dropout rrelu gumbel_softmax poisson binomial "
    "multinomial_helper"
)

_RANDOM_CAPTURABLE = RANDOM - _ids("poisson binomial multinomial_helper")

INDEXING: dict[Any, int] = {"__getitem__": 1, "copy_with_setitem_impl": 1}
"""Ops that take an index of Python ints, slices and tensors, and its position."""

CAPTURABLE = (
    VIEWS | MAY_ALIAS | ELEMENTWISE | REDUCTIONS | LINEAR | SHAPING | FUNCTIONAL | FACTORIES | _RANDOM_CAPTURABLE
    | frozenset(INDEXING) | {"copy_"}
)  # fmt: skip

SYNCS = _ids("item tolist is_nonzero equal allclose numpy get_and_update_rng_state_impl")
DYNAMIC_SHAPES = _ids(
    "nonzero argwhere unique unique_consecutive masked_select bincount combinations tensor_from_sequence lobpcg"
)
HOST_TRANSFERS = _ids("cpu tensor new_tensor pin_memory as_tensor scalar_tensor") | {
    PrimIDs.TENSOR_FROM_SEQUENCE,
    PrimIDs.NUMPY_ARRAY_TO_TORCH_TENSOR,
}
HOST_READS = _ids(
    "shape data_ptr get_device element_size dim_order is_contiguous is_pinned is_same_size is_set_to is_shared "
    "is_signed is_conj is_neg is_inference is_coalesced is_distributed has_names ndimension nelement"
)
NUMBER_ARITHMETIC = _ids("add sub mul floordiv mod neg abs convert_element_type_prim")
"""Ops of the Python executor that compute a number from numbers, and do nothing else."""

QUIET = HOST_READS | DYNAMIC_SHAPES | HOST_TRANSFERS | (SYNCS - {"get_and_update_rng_state_impl"})
"""Ops that are never captured and yet well known: they read their arguments, and do nothing else."""

COLLECTIVES = _ids(
    "torch_all_gather_prim_impl torch_all_reduce_prim_impl torch_broadcast_prim_impl "
    "torch_reduce_scatter_prim_impl torch_wait_prim_impl torch_pack_for_fsdp_prim_impl "
    "torch_unpack_for_fsdp_prim_impl torch_stash_grad_for_fsdp_prim_impl torch_update_bucket_view_prim_impl "
    "dtensor_redistribute"
)

PRIM_MAY_ALIAS = frozenset(
    {
        *(PrimIDs.UPDATE_ALIASES, PrimIDs.SHALLOW_COPY, PrimIDs.COPY_, PrimIDs.BITCAST, PrimIDs.BROADCAST_IN_DIM),
        *(PrimIDs.CONVERT_ELEMENT_TYPE, PrimIDs.DEVICE_PUT, PrimIDs.IMAG, PrimIDs.REAL, PrimIDs.RESHAPE),
        *(PrimIDs.SLICE, PrimIDs.SQUEEZE, PrimIDs.STRIDE_ORDER, PrimIDs.TRANSPOSE, PrimIDs.UNFOLD, PrimIDs.VIEW),
    }
)
"""Prims whose results may be, or share memory with, an argument."""

PRIM_RANDOM = frozenset({PrimIDs.UNIFORM, PrimIDs.RANDN, PrimIDs.RANDINT, PrimIDs.MULTINOMIAL})

PRIM_REFUSED = frozenset(
    {
        PrimIDs.ITEM,
        PrimIDs.MULTINOMIAL,
        PrimIDs.GET_AND_UPDATE_RNG_STATE,
        PrimIDs.TENSOR_FROM_SEQUENCE,
        PrimIDs.NUMPY_ARRAY_TO_TORCH_TENSOR,
        PrimIDs.PRINT,
        PrimIDs.PACK_LIST,
        PrimIDs.PACK_BUFFER,
        PrimIDs.PACK_ATTR,
        PrimIDs.PACK_SETITEM,
        PrimIDs.COPY_WITH_SETITEM,
        PrimIDs.INDEX_PUT,
        PrimIDs.SHAPE,
        PrimIDs.UNPACK_SEQUENCE,
        PrimIDs.DEL,
        PrimIDs.RETURN,
    }
)
"""Prims that a fusion may not contain. DEVICE_PUT is judged by its proxies: a move off the device has a CPU operand."""
