"""Functions of the kinds people write, with their inputs: the verifier must prove every right rewrite of them.

Each entry says how to make its inputs; under the fixture `cuda` they are on a GPU or on the emulation of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Entry:
    """One function and how to call it.

    Attributes:
        inputs: `(shape, dtype, requires_grad)` for tensors; anything else is passed as it is.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]

    def arguments(self, device: str = "cuda:0") -> list[Any]:
        """Makes the inputs."""
        return [_make(entry, device) if isinstance(entry, Spec) else entry for entry in self.inputs]


@dataclass(frozen=True)
class Spec:
    """A tensor input."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    grad: bool = False
    device: str | None = None


def _make(spec: Spec, device: str) -> torch.Tensor:
    made = torch.ones(spec.shape, dtype=spec.dtype, device=spec.device or device)
    return made.requires_grad_(spec.grad)


def t(*shape: int, dtype: torch.dtype = torch.float32, device: str | None = None) -> Spec:
    """A tensor that needs no gradient."""
    return Spec(shape, dtype, False, device)


def g(*shape: int) -> Spec:
    """A tensor that needs one."""
    return Spec(shape, torch.float32, True)


def elementwise(x: Any, y: Any) -> Any:
    return torch.relu(x * y) + torch.sin(x) / (1.0 + y.abs())


def where_and_compare(x: Any, y: Any) -> Any:
    return torch.where(x > y, x, y), (x == y).to(torch.int32)


def reductions(x: Any) -> Any:
    return x.sum(), x.mean(0), x.amax(1), x.var(dim=0), torch.prod(x, 1), x.argmax(1)


def norms(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (8,), w, b), F.rms_norm(x, (8,), w)


def matmuls(x: Any, y: Any) -> Any:
    return x @ y, torch.bmm(x[None], y[None]), torch.einsum("ij,jk->ik", x, y)


def views(x: Any) -> Any:
    return x.t(), x.reshape(2, -1), x[1:, :2], x.flatten(), x.unsqueeze(0), x.expand(3, 4, 4)


def chained_views(x: Any) -> Any:
    a = x.reshape(16).reshape(2, 8)
    return a.transpose(0, 1).contiguous().view(4, 4) + 1


def chunks(x: Any) -> Any:
    a, b = x.chunk(2, dim=1)
    return a * torch.sigmoid(b), torch.cat([b, a], 1), torch.stack([a, b])


def dtypes(x: Any) -> Any:
    h = x.to(torch.float16)
    return (h * 2).to(torch.float32), h.to(torch.bfloat16), x.to(torch.float32)


def returned_inputs(x: Any, y: Any) -> Any:
    return x, y + 1, x


def duplicates(x: Any) -> Any:
    a = x + 1
    b = x + 1
    return a, b, a


def duplicates_written(x: Any, y: Any) -> Any:
    a = x + 1
    b = x + 1
    a.add_(y)
    return a, b


def factories(x: Any) -> Any:
    return x + torch.arange(4, device=x.device) + torch.ones(4, device=x.device), torch.zeros_like(x)


def add_in_place(x: Any, y: Any) -> Any:
    x.add_(y)
    return x * 2


def read_write_read(x: Any) -> Any:
    a = x.sum(0)
    x.mul_(2)
    b = x.sum(0)
    return a, b


def write_through_view(x: Any) -> Any:
    x[0].add_(1.0)
    return x.sum()


def setitem(x: Any, y: Any) -> Any:
    x[1:3] = y
    return x + 1


def two_writes(x: Any, y: Any) -> Any:
    x.copy_(y + 1)
    y.mul_(x)
    return x - y


def kv_cache(cache: Any, k: Any, q: Any) -> Any:
    cache[2:3] = k
    return F.softmax(q @ cache.t(), -1) @ cache


def kv_cache_copy(cache: Any, k: Any) -> Any:
    cache.copy_(torch.cat([cache[1:], k]))
    return cache.sum(1)


def batch_norm(x: Any, mean: Any, var: Any, w: Any, b: Any) -> Any:
    return F.batch_norm(x, mean, var, w, b, True, 0.1).relu()


def batch_norm_eval(x: Any, mean: Any, var: Any) -> Any:
    return F.batch_norm(x, mean, var)


def dropout(x: Any) -> Any:
    return F.dropout(x, 0.3, True) * 2 + F.dropout(x, 0.5, True)


def no_dropout(x: Any) -> Any:
    return F.dropout(x, 0.5, False) + 1


def random_factories(x: Any) -> Any:
    a = torch.rand(4, 4, device=x.device)
    b = torch.randn(4, 4, device=x.device)
    return x + a, x * b


def attention(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    q, k, v = (torch.reshape(x @ w, (2, 4, 2, 4)).transpose(1, 2) for w in (wq, wk, wv))
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return x + o.transpose(1, 2).reshape(2, 4, 8) @ wo


def transformer_block(x: Any, w1: Any, w2: Any, ln: Any) -> Any:
    h = F.layer_norm(x, (8,), ln)
    a = F.softmax(h @ h.transpose(-1, -2) / 8**0.5, -1) @ h
    x = x + F.dropout(a, 0.1, True)
    return x + F.gelu(F.layer_norm(x, (8,), ln) @ w1) @ w2


def cross_entropy(x: Any, target: Any) -> Any:
    return F.cross_entropy(x, target)


def mse(x: Any, y: Any) -> Any:
    return F.mse_loss(x, y)


def losses(x: Any, y: Any) -> Any:
    p = torch.sigmoid(x)
    return (y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean(), (x - y).abs().mean()


def conv(x: Any, w: Any, b: Any) -> Any:
    return F.conv2d(x, w, b, padding=1).relu()


def conv_net(x: Any, w: Any, mean: Any, var: Any, fc: Any) -> Any:
    h = F.batch_norm(F.conv2d(x, w, padding=1), mean, var, training=True)
    h = F.max_pool2d(F.relu(h), 2)
    return F.linear(h.flatten(1), fc)


def embedding(index: Any, table: Any) -> Any:
    return F.embedding(index, table).sum(1)


def index_ops(x: Any, index: Any) -> Any:
    return torch.index_select(x, 0, index), torch.gather(x, 1, index[None].expand(4, 4)), x[index]


def sorting(x: Any) -> Any:
    values, indices = torch.topk(x, 2)
    return values, indices, torch.sort(x, -1)[0], x.cumsum(0)


def one_item(x: Any) -> Any:
    return x.sum().item()


def item_islands(x: Any, y: Any) -> Any:
    a = (x * y + 1).sum()
    b = x * a.item() + y
    c = b.exp().mean()
    return b / c.item() - 1


def item_and_write(x: Any, y: Any) -> Any:
    s = y.sum().item()
    y.add_(1.0)
    return x * s + y


def to_host(x: Any) -> Any:
    return (x + 1).cpu() * 2, x * 3


def host_scalar(x: Any, s: Any) -> Any:
    return x * s + x


def counted_between(x: Any, y: Any) -> Any:
    s = (x * y).exp()
    n = s.sum().item()
    return torch.relu(s * n + y) * x


def number_argument(x: Any, n: float) -> Any:
    return x * n + n


def nested(tree: Any) -> Any:
    return {"a": tree["x"] + 1, "b": (tree["y"][0] * 2, [tree["x"]])}


def nothing(x: Any) -> Any:
    return x


def silu_in_place(x: Any) -> Any:
    return F.silu(x + 1, inplace=True)


def group_norm(x: Any, w: Any) -> Any:
    return F.group_norm(x, 2, w)


def pooled(x: Any) -> Any:
    return F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1), F.pad(x, (1, 1))


def no_grad_part(x: Any) -> Any:
    with torch.no_grad():
        y = x * 2
    return x * y


def clamped(x: Any) -> Any:
    return torch.clamp(x, -1, 1).pow(2).sqrt(), x.masked_fill(x > 0, 0.0), torch.tril(x), torch.lerp(x, x + 1, 0.5)


def optimiser_step(p: Any, grad: Any, m: Any) -> Any:
    m.mul_(0.9).add_(grad)
    p.sub_(m * 0.01)
    return p


_long = torch.int64
CORPUS: tuple[Entry, ...] = tuple(
    Entry(function.__name__ + suffix, function, inputs)
    for suffix, function, inputs in [
        ("", elementwise, (t(4, 4), t(4, 4))),
        ("_grad", elementwise, (g(4, 4), g(4, 4))),
        ("", where_and_compare, (t(4, 4), t(4, 4))),
        ("", reductions, (t(4, 4),)),
        ("_grad", norms, (g(4, 8), g(8), g(8))),
        ("", matmuls, (t(4, 4), t(4, 4))),
        ("_grad", matmuls, (g(4, 4), g(4, 4))),
        ("", views, (t(4, 4),)),
        ("_grad", chained_views, (g(4, 4),)),
        ("", chunks, (t(4, 4),)),
        ("_grad", chunks, (g(4, 4),)),
        ("", dtypes, (t(4, 4),)),
        ("", returned_inputs, (t(4, 4), t(4, 4))),
        ("", duplicates, (t(4, 4),)),
        ("", duplicates_written, (t(4, 4), t(4, 4))),
        ("", factories, (t(4, 4),)),
        ("", add_in_place, (t(4, 4), t(4, 4))),
        ("", read_write_read, (t(4, 4),)),
        ("", write_through_view, (t(4, 4),)),
        ("", setitem, (t(4, 4), t(2, 4))),
        ("", two_writes, (t(4, 4), t(4, 4))),
        ("", kv_cache, (t(4, 4), t(1, 4), t(1, 4))),
        ("", kv_cache_copy, (t(4, 4), t(1, 4))),
        ("", batch_norm, (t(4, 3, 5, 5), t(3), t(3), t(3), t(3))),
        ("_grad", batch_norm, (g(4, 3, 5, 5), t(3), t(3), g(3), g(3))),
        ("", batch_norm_eval, (t(4, 3, 5, 5), t(3), t(3))),
        ("", dropout, (t(4, 4),)),
        ("_grad", dropout, (g(4, 4),)),
        ("", no_dropout, (t(4, 4),)),
        ("", random_factories, (t(4, 4),)),
        ("", attention, (t(2, 4, 8), t(8, 8), t(8, 8), t(8, 8), t(8, 8))),
        ("_grad", attention, (g(2, 4, 8), g(8, 8), g(8, 8), g(8, 8), g(8, 8))),
        ("_grad", transformer_block, (g(2, 4, 8), g(8, 16), g(16, 8), g(8))),
        ("", cross_entropy, (t(4, 5), t(4, dtype=_long))),
        ("_grad", cross_entropy, (g(4, 5), t(4, dtype=_long))),
        ("_grad", mse, (g(4, 4), t(4, 4))),
        ("_grad", losses, (g(4, 4), t(4, 4))),
        ("", conv, (t(2, 3, 8, 8), t(4, 3, 3, 3), t(4))),
        ("_grad", conv, (g(2, 3, 8, 8), g(4, 3, 3, 3), g(4))),
        ("_grad", conv_net, (g(2, 3, 8, 8), g(4, 3, 3, 3), t(4), t(4), g(10, 64))),
        ("_grad", embedding, (t(2, 3, dtype=_long), g(10, 4))),
        ("", index_ops, (t(4, 4), t(4, dtype=_long))),
        ("", sorting, (t(4, 4),)),
        ("", one_item, (t(4, 4),)),
        ("", item_islands, (t(4, 4), t(4, 4))),
        ("_grad", item_islands, (g(4, 4), g(4, 4))),
        ("", item_and_write, (t(4, 4), t(4, 4))),
        ("", to_host, (t(4, 4),)),
        ("", host_scalar, (t(4, 4), t(device="cpu"))),
        ("", counted_between, (t(4, 4), t(4, 4))),
        ("", number_argument, (t(4, 4), 2.5)),
        ("", nothing, (t(4, 4),)),
        ("", silu_in_place, (t(4, 4),)),
        ("_grad", group_norm, (g(2, 4, 5), g(4))),
        ("", pooled, (t(1, 2, 4, 4),)),
        ("_grad", no_grad_part, (g(4, 4),)),
        ("", clamped, (t(4, 4),)),
        ("", optimiser_step, (t(4, 4), t(4, 4), t(4, 4))),
    ]
)
