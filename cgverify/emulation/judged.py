"""The aten ops (without "aten::") that the recorded probes reach in a capture: for these a GPU has answered.

The probes and the answers of an H200 lie in tests/golden, where a test keeps this table up to date.
"""

# fmt: off
JUDGED = frozenset({
    "_assert_async", "_cdist_forward", "_ctc_loss", "_fft_r2c", "_foreach_add", "_foreach_mul_", "_foreach_norm",
    "_linalg_check_errors", "_linalg_det", "_linalg_eigh", "_linalg_solve_ex", "_linalg_svd", "_local_scalar_dense",
    "_log_softmax", "_scaled_dot_product_flash_attention_for_cpu", "_softmax", "_unique2", "abs", "add", "add_",
    "addcmul", "all", "allclose", "aminmax", "any", "arange", "argmax", "bernoulli", "bernoulli_", "bincount",
    "bucketize", "cat", "ceil_", "clamp", "clone", "constant_pad_nd", "convolution", "cumprod", "cumsum", "div",
    "div_", "embedding", "empty", "empty_like", "eq", "equal", "exponential_", "eye", "fill_", "flip", "full",
    "gather", "gt", "histc", "index", "index_add_", "index_put_", "index_select", "isin", "isnan", "kthvalue",
    "lerp", "lerp_", "linalg_cholesky_ex", "linalg_inv_ex", "linalg_qr", "linalg_vector_norm", "linspace", "log",
    "lt", "masked_fill", "masked_scatter", "masked_select", "max", "mean", "median", "min", "mm", "mul", "mul_",
    "multinomial", "nan_to_num", "native_batch_norm", "native_layer_norm", "ne", "neg", "new_zeros",
    "nll_loss_forward", "nonzero", "normal", "ones_like", "pow", "rand", "randint", "randperm", "reciprocal",
    "reflection_pad1d", "remainder", "repeat_interleave", "roll", "rrelu_with_noise", "scalar_tensor", "scatter_",
    "scatter_add", "searchsorted", "sigmoid", "sort", "stack", "sub", "sum", "topk", "tril_indices", "uniform_",
    "unique_consecutive", "upsample_nearest2d", "xlogy", "zeros", "zeros_like",
})
# fmt: on
