"""A small GPT: its parameters, its training loss, and a decoder that keeps keys and values in static caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class GPTConfig:
    """Sizes of a `GPT`.

    Attributes:
        vocabulary: how many tokens there are.
        context: most positions of a sequence.
        width: of the residual stream; `heads` divides it.
        heads: of attention.
        layers: how many blocks.
        dropout: share of the residual updates that training drops.
    """

    vocabulary: int = 256
    context: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 2
    dropout: float = 0.0


class Block(nn.Module):
    """A pre-norm block: attention, then a two-layer perceptron, each added to the residual stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        width = config.width
        self.heads, self.depth = config.heads, width // config.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(config.dropout)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each (batch, heads, time, depth), of a (batch, time, width) stream."""
        batch, time, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, time, 3, self.heads, self.depth)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        return q, k, v

    def attend(self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """Mix `v` by `q` and `k` where `mask` (time, positions) allows, and add that and the perceptron to `x`.

        Attention is written out, so that every compiler starts from the same ops and can be compared bit for bit.
        """
        scores = (q @ k.transpose(-2, -1)) * self.depth**-0.5
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
        mixed = (weights @ v).transpose(1, 2).flatten(2)
        x = x + self.dropout(self.out(mixed))
        update: Tensor = self.dropout(self.down(functional.gelu(self.up(self.norm2(x)))))
        return x + update


class GPT(nn.Module):
    """Token and position embeddings, blocks, and a head."""

    blocks: Sequence[Block]

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))  # type: ignore[assignment]
        self.norm, self.head = nn.LayerNorm(config.width), nn.Linear(config.width, config.vocabulary, bias=False)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The residual stream (batch, time, width) of int64 `tokens` (batch, time) at int64 `positions` (time)."""
        stream: Tensor = self.tokens(tokens) + self.positions(positions)
        return stream

    def logits(self, x: Tensor) -> Tensor:
        """(batch, time, width) to (batch, time, vocabulary)."""
        scores: Tensor = self.head(self.norm(x))
        return scores

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean cross entropy of `targets` given `tokens`, both int64 (batch, time)."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        mask = positions[:, None] >= positions
        x = self.embed(tokens, positions)
        for block in self.blocks:
            q, k, v = block.split(x)
            x = block.attend(x, q, k, v, mask)
        return functional.cross_entropy(self.logits(x).flatten(0, 1), targets.flatten())


class Decoder(nn.Module):
    """Gives the next tokens, and keeps the keys and values of all earlier ones in buffers of fixed size.

    Args:
        model: whose parameters it uses.
        batch: how many sequences are generated at once.
    """

    every: Tensor

    def __init__(self, model: GPT, batch: int) -> None:
        super().__init__()
        config = model.config
        self.model = model
        shape = (batch, config.heads, config.context, config.width // config.heads)
        weight = model.tokens.weight
        for layer in range(config.layers):
            for name in ("keys", "values"):
                self.register_buffer(f"{name}{layer}", torch.zeros(shape, device=weight.device, dtype=weight.dtype))
        self.register_buffer("every", torch.arange(config.context, device=weight.device))

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Write `tokens` (batch, time) at `positions` (time) into the caches; the likeliest next token, (batch, 1)."""
        mask = positions[:, None] >= self.every
        x = self.model.embed(tokens, positions)
        for layer, block in enumerate(self.model.blocks):
            q, k, v = block.split(x)
            keys = getattr(self, f"keys{layer}").index_copy_(2, positions, k)
            values = getattr(self, f"values{layer}").index_copy_(2, positions, v)
            x = block.attend(x, q, keys, values, mask)
        return self.model.logits(x[:, -1:]).argmax(-1)


Step = Callable[[Tensor, Tensor], Tensor]


@torch.no_grad()
def generate(step: Step, prompt: Tensor, count: int) -> Tensor:
    """The `count` tokens that follow `prompt`, int64 (batch, count): one call for the prompt, then one per token.

    Args:
        step: a `Decoder`, compiled or not; every call before this one is forgotten, as positions start at 0.
        prompt: int64 (batch, time), with `time + count` at most the model's context.
        count: how many tokens.
    """
    position = torch.arange(prompt.shape[1], device=prompt.device)
    token = step(prompt, position)
    tokens = [token]
    position = position[-1:]
    for _ in range(count - 1):
        position = position + 1
        token = step(token, position)
        tokens.append(token)
    return torch.cat(tokens, 1)
