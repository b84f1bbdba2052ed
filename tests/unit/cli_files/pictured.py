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
