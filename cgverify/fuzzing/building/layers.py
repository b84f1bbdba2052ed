"""Layers of networks: convolutions, pools, and normalisations over channels."""

from __future__ import annotations

from math import prod

from cgverify.fuzzing.building.bounds import FUNCTIONAL, Params, bounded
from cgverify.fuzzing.building.views import emit_view
from cgverify.fuzzing.pool import Dtype, On, Pool, Ref
from cgverify.fuzzing.signatures import Accepts, Build, destination, tensor
from cgverify.fuzzing.values import WIDE_FLOATS, Shape, TensorType


def channelled(*, min_rank: int = 2) -> Accepts:
    """Accept a tensor with channels in dimension 1 and more than one value for each, as torch demands in training."""
    is_tensor = tensor(WIDE_FLOATS, min_rank=min_rank, max_rank=3, nonempty=True)

    def accepts(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        if not is_tensor(pool, ref, chosen):
            return False
        shape = pool.tensor(ref).shape
        # Instance normalisation counts the values of one instance only.
        return prod(shape[2:] if min_rank > 2 else (shape[0], *shape[2:])) > 1

    return accepts


def group_norm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Normalise over all channels at once."""
    _keep_shape(pool, "group_norm", (refs[0], 1))


def batch_norm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Normalise each channel by the batch."""
    _keep_shape(pool, "batch_norm", (refs[0], None, None, None, None, True))


def instance_norm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Normalise each channel of each instance."""
    _keep_shape(pool, "instance_norm", refs)


def local_response_norm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Divide by the neighbouring channels."""
    _keep_shape(pool, "local_response_norm", (refs[0], 2))


def _keep_shape(pool: Pool, name: str, args: tuple[object, ...], writes: Ref | None = None) -> None:
    value = pool.tensor(args[0]) if isinstance(args[0], Ref) else None
    if value is not None:
        pool.emit(FUNCTIONAL + name, args, shapes=(value.shape,), dtype=value.dtype, writes=writes)


_is_written = destination(WIDE_FLOATS, min_rank=1)


def running_mean_of_second(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
    """Accept running statistics for the channels of the first operand."""
    value, first = pool.types[ref.value], pool.tensor(chosen[0])
    return (
        isinstance(value, TensorType)
        and (value.shape, value.dtype) == (first.shape[1:2], first.dtype)
        and value.storage != first.storage
        and _is_written(pool, ref, chosen)
    )


def tracked_batch_norm(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Normalise by the batch, and write its mean into a tensor and its variance into a new one."""
    value, mean = pool.tensor(refs[0]), pool.tensor(refs[1])
    kwargs = {"device": On(value.device), "dtype": Dtype(mean.dtype)}
    (variance,) = pool.emit("torch.ones", (mean.shape,), kwargs, shapes=(mean.shape,), dtype=mean.dtype)
    _keep_shape(pool, "batch_norm", (refs[0], refs[1], variance, None, None, True), refs[1])


def kernel_fits(dims: int) -> Accepts:
    """Accept the kernel of a convolution over the last `dims` dimensions of the first operand."""

    def accepts(pool: Pool, ref: Ref, chosen: tuple[Ref, ...]) -> bool:
        value, first = pool.types[ref.value], pool.tensor(chosen[0])
        return (
            isinstance(value, TensorType)
            and (value.dtype, value.device, value.rank) == (first.dtype, first.device, 3)
            and (dims == 2 or value.shape[1] == first.shape[1])
            and (dims == 1 or value.shape[0] == first.shape[0])
            and all(0 < k <= n for k, n in zip(value.shape[-dims:], first.shape[-dims:], strict=True))
            and value.numel > 0
        )

    return accepts


def conv1d(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Convolve the last dimension."""
    _convolve(pool, refs, 1)


def conv2d(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
    """Convolve the last two dimensions, with a batch of one and a single kernel."""
    pairs = tuple(emit_view(pool, "torch.unsqueeze", (ref, 0), (1, *pool.tensor(ref).shape)) for ref in refs)
    _convolve(pool, pairs, 2)


def _convolve(pool: Pool, refs: tuple[Ref, ...], dims: int) -> None:
    value, kernel = pool.tensor(refs[0]), pool.tensor(refs[1])
    sizes = tuple(n - k + 1 for n, k in zip(value.shape[-dims:], kernel.shape[-dims:], strict=True))
    shape: Shape = (value.shape[0], kernel.shape[0], *sizes)
    bound = bounded(pool, lambda a, b: a * b * prod(kernel.shape[1:]), refs)
    pool.emit(f"{FUNCTIONAL}conv{dims}d", refs, shapes=(shape,), dtype=value.dtype, bound=bound)


def pooled(dims: int) -> Accepts:
    """Accept a tensor whose last `dims` dimensions can be halved."""
    is_tensor = tensor(WIDE_FLOATS, min_rank=dims + 1, max_rank=dims + 1 if dims == 2 else 3, nonempty=True)
    return lambda pool, ref, chosen: (
        is_tensor(pool, ref, chosen) and all(size > 1 for size in pool.tensor(ref).shape[-dims:])
    )


def max_pool(dims: int) -> Build:
    """Return what takes the largest of each two, or each two by two."""

    def build(pool: Pool, refs: tuple[Ref, ...], params: Params) -> None:
        value = pool.tensor(refs[0])
        shape = (*value.shape[:-dims], *(size // 2 for size in value.shape[-dims:]))
        args = (refs[0], 2)
        pool.emit(f"{FUNCTIONAL}max_pool{dims}d", args, shapes=(shape,), dtype=value.dtype, bound=value.bound)

    return build
