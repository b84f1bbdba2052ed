"""What torch's operator schemas do not say: op names whose effects are declared nowhere.

`signatures.py` derives facts from schemas, tags and Thunder's decompositions. The names below are the rest, each group
with its reason. A name is the last part of a symbol's id or name, without `torch.`, `_prim_impl` and the like. Tests
re-derive as much of these tables as can be derived by running the ops.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Outputs may be the first argument itself or a view of it, though no schema says so: composite ops that return their
# input where there is nothing to do, and Python wrappers around views.
MAY_RETURN_ARGUMENT = _names(
    """
    __getitem__ alpha_dropout bitcast broadcast_in_dim broadcast_to conj conj_physical convert_element_type dropout
    dropout1d dropout2d dropout3d feature_alpha_dropout feature_dropout real ravel reshape resize resize_as slice
    sum_to_size to_dense stride_order unsafe_chunk unsafe_split unsafe_split_with_sizes update_bucket_view view_of
    bool int double half bfloat16 byte char short cdouble cfloat chalf
    """
)
# As above, for every tensor argument.
MAY_RETURN_ANY_ARGUMENT = _names("atleast_1d atleast_2d atleast_3d broadcast_tensors cartesian_prod meshgrid")
# As above, if there is but one tensor argument.
MAY_RETURN_ONLY_ARGUMENT = frozenset({"einsum"})

# Ops whose results are never views, though Thunder decomposes them to views.
NEVER_VIEWS = frozenset({"interpolate"})

# Ops whose Python form returns its argument, the very object.
IDENTITIES = frozenset({"update_aliases", "shallow_copy"})

# Conversions: the result shares memory with the argument only if dtype and device stay.
CONVERSIONS = _names(
    """
    to convert_element_type device_put bool int double half bfloat16 byte char short cdouble cfloat chalf cpu float
    long type_as
    """
)

# Written argument positions, of the Python form, that no schema declares.
UNDECLARED_WRITES: dict[str, tuple[int, ...]] = {
    "native_batch_norm": (3, 4),
    "batch_norm_update_stats": (1, 2),
    "batch_norm_gather_stats": (3, 4),
    "batch_norm_gather_stats_with_counts": (3, 4),
    "fused_moving_avg_obs_fake_quant": (3, 4, 5, 6),
}

# The same for symbols of Thunder's executors whose arguments stand in another order than torch's.
REORDERED_WRITES: dict[str, tuple[int, ...]] = {
    "copy_": (1,),  # copy_(copy_from, copy_to); Thunder's `torch.Tensor.copy_(self, src)` has torch's order
}

# Ops that draw random numbers but carry no `nondeterministic_seeded` tag.
UNTAGGED_RANDOM = _names(
    """
    uniform randn randint rand randperm multinomial multinomial_helper bernoulli dropout1d dropout2d dropout3d
    gumbel_softmax fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices
    fractional_max_pool3d_with_indices multi_head_attention_forward _native_multi_head_attention lobpcg
    grad_forward_scaled_dot_product_efficient_attention
    """
)
# Random ops draw nothing when one of these arguments has this value.
DRAWS_NOTHING_WHEN: dict[str, object] = {"p": 0, "dropout_p": 0, "training": False, "train": False}

# Ops that make the host wait for the device, whatever their arguments (checked on a GPU: they fail under capture).
HOST_SYNCS = _names(
    """
    item tolist numpy is_nonzero equal allclose argwhere nonzero masked_select unique unique_consecutive bincount
    combinations inv inverse solve cholesky eigh eigvalsh eig eigvals svd svdvals lstsq lobpcg pinv pinverse
    matrix_rank cond nonzero_static get_and_update_rng_state
    """
)
# Ops that may wait or transfer, depending on the index they are given.
INDEXING = frozenset({"one_hot", "repeat_interleave", "__getitem__", "getitem", "copy_with_setitem", "index_put"})

# Ops that copy between host and device, whatever their arguments.
HOST_TRANSFERS = frozenset(
    {"tensor", "new_tensor", "tensor_from_sequence", "numpy_array_to_torch_tensor", "pin_memory"}
)

# Ops whose behaviour under capture depends on library and size: no promise either way.
CAPTURE_UNCERTAIN = _names(
    """
    cholesky_ex cholesky_inverse cholesky_solve ctc_loss embedding_bag geqrf gru histc histogram householder_product
    ldl_factor ldl_factor_ex ldl_solve lstm lu lu_factor lu_factor_ex lu_solve lu_unpack matrix_exp max_unpool1d
    max_unpool2d max_unpool3d multi_head_attention_forward nuclear_norm orgqr ormqr qr rnn_relu rnn_tanh slogdet
    sparse_mask tensorinv tensorsolve to_dense to_sparse triangular_solve unravel_index coalesce indices values
    choose_qparams_optimized
    """
)

# Ops of the Python executor that only compute with Python numbers.
PYTHON_PURE = _names(
    """
    acos acosh asin asinh atan atanh abs tensor_abs neg real imag signbit add atan2 bitwise_and bitwise_or
    bitwise_xor eq floordiv fmod mod ge gt le lt mul ne pow sub div shape convert_element_type_prim construct_tuple
    """
)
# Ops of the Python executor that empty the list they are given.
CLEARS_COLLECTION = frozenset({"clear_mutable_collection"})

# Known ops that have neither schema nor decomposition: pure functions of their arguments.
KNOWN_PURE = _names(
    """
    adaptive_avg_pool2d_backward affine_grid copy_with_setitem efficient_attention_backward embedding_backward
    erfcinv fold gaussian_nll_loss get_device grid_sample interpolate local_response_norm log_sigmoid_backward
    log_softmax_backward_data logsigmoid lp_pool1d lp_pool2d lp_pool3d multi_dot multilabel_soft_margin_loss
    nll_loss_backward pad scaled_dot_product_efficient_attention_backward softsign spmm tanhshrink
    triplet_margin_with_distance_loss zeta adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices
    adaptive_max_pool3d_with_indices data_ptr dim_order element_size is_shared nelement ndimension philox_rand shape
    unfold
    """
)

# Ids of Thunder's torch language that are prims but lack the prefix `torch.`.
UNPREFIXED_TORCH_IDS = frozenset({"adaptive_avg_pool2d_backward", "nll_loss_backward"})

# Prims (by the name of their id) that are more than a pure function of tensors and numbers.
VIEW_PRIMS = _names(
    """
    BITCAST BROADCAST_IN_DIM CONVERT_ELEMENT_TYPE DEVICE_PUT IMAG REAL RESHAPE SLICE SQUEEZE STRIDE_ORDER TRANSPOSE
    UNFOLD VIEW
    """
)
RANDOM_PRIMS = frozenset({"UNIFORM", "RANDINT", "RANDN", "MULTINOMIAL"})
OPAQUE_PRIM_PREFIXES = tuple(
    sorted(_names("CHECK_ ASSERT_ PACK_ UNPACK_ PUT_ GET_ EXOGENOUS_LIKE PRINT SINK PYTHON_VARS"))
)
