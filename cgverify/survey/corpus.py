"""The corpus: functions and modules of the kinds people write, each with the arguments of one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


@dataclass(frozen=True)
class Entry:
    """One program.

    Attributes:
        name: what it stands for.
        make: makes (function or module, arguments) on the device "cuda".
        options: for `thunder.jit`.
    """

    name: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    options: dict[str, Any] = field(default_factory=dict)


CORPUS: list[Entry] = []

Made = tuple[Callable[..., Any], tuple[Any, ...]]


def _entry(make: Callable[[], Made]) -> Callable[[], Made]:
    CORPUS.append(Entry(make.__name__.lstrip("_").replace("_", " "), make))
    return make


def _t(*shape: int, grad: bool = False) -> Tensor:
    count = max(1, int(torch.Size(shape).numel()))
    values = torch.arange(count, dtype=torch.float32).reshape(shape) / count - 0.4
    return values.to("cuda").requires_grad_(grad)


def _i(high: int, *shape: int) -> Tensor:
    return (torch.arange(int(torch.Size(shape).numel())) % high).reshape(shape).to("cuda")


class Attention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Any:
        """(batch, time, width) to the same."""
        batch, time, width = x.shape
        q, k, v = self.qkv(x).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Any:
        """(batch, time, width) to the same."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class ConvNet(nn.Module):
    """A small image classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Any:
        """(batch, 3, height, width) to (batch, 5)."""
        x = F.relu(self.norm(self.conv1(x)))
        x = F.relu(self.conv2(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


@_entry
def _transformer_block() -> Made:
    return Block(8, 2).to("cuda"), (_t(2, 4, 8),)


@_entry
def _transformer_block_with_dropout() -> Made:
    return Block(8, 2, 0.1).to("cuda").train(), (_t(2, 4, 8, grad=True),)


@_entry
def _transformer_block_for_inference() -> Made:
    return Block(8, 2).to("cuda").eval().requires_grad_(False), (_t(2, 4, 8),)


@_entry
def _language_model() -> Made:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.block, self.norm = nn.Embedding(11, 8), Block(8, 2), nn.RMSNorm(8)

        def forward(self, tokens: Tensor, targets: Tensor) -> Any:
            x = self.norm(self.block(self.embed(tokens)))
            return F.cross_entropy((x @ self.embed.weight.t()).flatten(0, 1), targets.flatten())

    return Model().to("cuda"), (_i(11, 2, 4), _i(11, 2, 4))


@_entry
def _convolutional_net() -> Made:
    return ConvNet().to("cuda"), (_t(2, 3, 6, 6),)


@_entry
def _convolutional_net_for_inference() -> Made:
    return ConvNet().to("cuda").eval().requires_grad_(False), (_t(2, 3, 6, 6),)


@_entry
def _pooling() -> Made:
    def function(x: Tensor) -> Tensor:
        return F.max_pool2d(x, 2) + F.avg_pool2d(x, 2)

    return function, (_t(1, 2, 4, 4, grad=True),)


@_entry
def _gated_recurrent_cell() -> Made:
    def function(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
        for step in range(3):
            r, z, n = (x[step] @ w + b).chunk(3, 1)
            hr, hz, hn = (h @ u).chunk(3, 1)
            r, z = torch.sigmoid(r + hr), torch.sigmoid(z + hz)
            h = (1 - z) * torch.tanh(n + r * hn) + z * h
        return h

    return function, (_t(3, 2, 4), _t(2, 4), _t(4, 12, grad=True), _t(4, 12, grad=True), _t(12, grad=True))


@_entry
def _lstm_cell() -> Made:
    def function(x: Tensor, h: Tensor, c: Tensor, w: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = (x @ w + h @ u).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    return function, (_t(2, 4), _t(2, 4), _t(2, 4), _t(4, 16, grad=True), _t(4, 16, grad=True))


@_entry
def _attention_with_cache() -> Made:
    def function(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        keys.copy_(torch.cat([keys[:, 1:], k], 1))
        values.copy_(torch.cat([values[:, 1:], v], 1))
        return torch.softmax(q @ keys.transpose(1, 2), -1) @ values

    return function, (_t(2, 1, 4), _t(2, 1, 4), _t(2, 1, 4), _t(2, 5, 4), _t(2, 5, 4))


@_entry
def _cache_written_by_index() -> Made:
    def function(cache: Tensor, position: Tensor, new: Tensor) -> Tensor:
        cache.index_copy_(0, position, new)
        return cache.sum(0)

    return function, (_t(6, 4), _i(6, 2), _t(2, 4))


@_entry
def _losses() -> Made:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        p = torch.sigmoid(x)
        entropy = -(y * torch.log(p + 1e-6) + (1 - y) * torch.log(1 - p + 1e-6)).mean()
        distance = (x - y).abs()
        smooth = torch.where(distance < 1.0, 0.5 * distance**2, distance - 0.5).mean()
        return F.mse_loss(x, y), distance.mean(), entropy, smooth

    return function, (_t(4, 5, grad=True), _t(4, 5))


@_entry
def _cross_entropy_with_ignored_targets() -> Made:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(x, y, ignore_index=1)

    return function, (_t(4, 5, grad=True), _i(5, 4))


@_entry
def _log_softmax_and_gather() -> Made:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return -torch.gather(F.log_softmax(x, -1), 1, y[:, None]).mean()

    return function, (_t(4, 5, grad=True), _i(5, 4))


@_entry
def _sgd_step() -> Made:
    def function(p: Tensor, grad: Tensor, momentum: Tensor) -> None:
        momentum.mul_(0.9).add_(grad)
        p.sub_(momentum * 0.1)

    return function, (_t(4, 4), _t(4, 4), _t(4, 4))


@_entry
def _adam_step() -> Made:
    def function(p: Tensor, grad: Tensor, mean: Tensor, square: Tensor, count: Tensor) -> Tensor:
        count.add_(1.0)
        mean.mul_(0.9).add_(grad * 0.1)
        square.mul_(0.99).add_(grad * grad * 0.01)
        scaled = mean / (1 - 0.9**count)
        p.sub_(0.1 * scaled / (torch.sqrt(square / (1 - 0.99**count)) + 1e-8))
        return p

    return function, (_t(4, 4), _t(4, 4), _t(4, 4), _t(4, 4), _t(1))


@_entry
def _autocast() -> Made:
    def function(x: Tensor, w: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return (x @ w).relu().float().sum()

    return function, (_t(4, 4), _t(4, 4, grad=True))


@_entry
def _checkpointed_block() -> Made:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 4)

        def _inner(self, x: Tensor) -> Any:
            return self.second(torch.tanh(self.first(x)))

        def forward(self, x: Tensor) -> Any:
            return checkpoint(self._inner, x, use_reentrant=False) * 2

    return Model().to("cuda"), (_t(2, 4, grad=True),)


@_entry
def _quantised_linear() -> Made:
    def function(x: Tensor, w: Tensor) -> Tensor:
        scale = w.abs().amax(1, keepdim=True) / 127.0
        codes = torch.clamp(torch.round(w / scale), -127, 127).to(torch.int8)
        return x @ (codes.to(torch.float32) * scale).t()

    return function, (_t(3, 4), _t(5, 4))


@_entry
def _frozen_layers() -> Made:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).to("cuda")
    model[0].requires_grad_(False)
    return model, (_t(3, 4),)


@_entry
def _no_grad_in_the_middle() -> Made:
    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            scale = x.abs().amax()
        return x / scale

    return function, (_t(3, 4, grad=True),)


@_entry
def _saved_value_overwritten() -> Made:
    def function(x: Tensor, y: Tensor) -> Tensor:
        h = x * y
        y.mul_(2.0)
        return h

    return function, (_t(4, grad=True), _t(4))


@_entry
def _number_read_back() -> Made:
    def function(x: Tensor) -> Tensor:
        return x * x.sum().item() + 1

    return function, (_t(4),)


@_entry
def _random_numbers() -> Made:
    def function(x: Tensor) -> Tensor:
        return x + torch.rand(4, device=x.device) * torch.randn(4, device=x.device)

    return function, (_t(4),)


@_entry
def _unused_random_numbers() -> Made:
    def function(x: Tensor) -> Tensor:
        torch.rand(4, device=x.device)
        return x + torch.rand(4, device=x.device)

    return function, (_t(4),)


@_entry
def _views_and_writes() -> Made:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        row = x[0]
        row.add_(1.0)
        return x.sum(), row

    return function, (_t(3, 4),)


@_entry
def _nested_results() -> Made:
    def function(tree: dict[str, Any]) -> dict[str, Any]:
        return {"a": tree["x"] + 1, "b": [tree["y"][0] * 2, (tree["x"],)]}

    return function, ({"x": _t(3), "y": [_t(3)]},)


@_entry
def _results_given_twice() -> Made:
    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x * 2
        return y, y, y + 1

    return function, (_t(3, grad=True),)


@_entry
def _gather_and_scatter() -> Made:
    def function(x: Tensor, index: Tensor) -> Tensor:
        rows = torch.index_select(x, 0, index)
        return torch.scatter_add(x, 0, index[:, None].expand(2, 4), rows) + torch.gather(x, 1, index[None, :1])

    return function, (_t(3, 4, grad=True), _i(3, 2))


@_entry
def _normalisations() -> Made:
    def function(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.layer_norm(x, (8,), w, b) + F.rms_norm(x, (8,), w) + F.group_norm(x[:, :, None], 2)[:, :, 0]

    return function, (_t(4, 8, grad=True), _t(8, grad=True), _t(8, grad=True))


@_entry
def _activations() -> Made:
    def function(x: Tensor) -> Tensor:
        return F.gelu(x) + F.silu(x) + F.elu(x) + F.leaky_relu(x) + F.softplus(x) + F.hardswish(x) + F.mish(x)

    return function, (_t(4, 4, grad=True),)
