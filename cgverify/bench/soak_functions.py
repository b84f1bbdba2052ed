"""The functions that a soak calls, on batches of shape (rows, WIDTH) float32."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

WIDTH = 32


class Net(nn.Module):
    """Two layers with a norm between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (rows, WIDTH) to the same."""
        hidden = functional.layer_norm(functional.gelu(self.first(x)), (2 * WIDTH,))
        result: torch.Tensor = x + self.second(hidden)
        return result


def infer(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Products, a view of the argument, and two results that share memory."""
    scores = torch.softmax(x @ x.transpose(0, 1), -1)
    mixed = torch.tanh(scores @ x)
    return mixed, mixed.transpose(0, 1), x[:1]


def read_on_host(x: torch.Tensor) -> torch.Tensor:
    """Work before and after two values that the host reads, one fed on the device and one not."""
    total, largest = x.abs().sum().item(), x.amax().item()
    return (x * total).sin() / (largest + 1.0)


def drop(x: torch.Tensor) -> torch.Tensor:
    """Dropout and what follows it."""
    return functional.dropout(x * 2, 0.25) + 1


def accumulate(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """A running mean, written in place."""
    state.mul_(0.75).add_(x.mean(0))
    return x - state
