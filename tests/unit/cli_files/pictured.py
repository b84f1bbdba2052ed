"""Functions whose pictures are looked at."""

from __future__ import annotations

import torch


def divided(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two regions: the host waits for a number, and one op works on it."""
    total = torch.relu(x * y)
    scaled = total / total.sum().item()
    return torch.tanh(scaled + y)


def divided_inputs(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Two vectors."""
    return torch.ones(4, device=device), torch.full((4,), 2.0, device=device)


class Doubles(torch.nn.Module):
    """A module made before there is a device."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.weight)


model = Doubles()


def model_inputs(device: str) -> tuple[torch.Tensor]:
    """One vector."""
    return (torch.ones(4, device=device),)
