"""One training step of a small model, with a number read back on the host."""

import torch
from torch.nn import functional


def step(x, weight, gain, seen):
    """A layer, a running mean, a scale from the host, a normalised and thinned out result."""
    hidden = functional.gelu(x @ weight)
    seen.mul_(0.9).add_(hidden.detach().mean(0), alpha=0.1)
    scale = hidden.abs().max().item()
    normed = functional.layer_norm(hidden / scale, (8,), gain)
    chosen = functional.dropout(normed, 0.25)
    return chosen.softmax(-1).square().sum()


def step_inputs(device):
    """One batch."""
    torch.manual_seed(0)
    x, weight, gain = (torch.randn(size).to(device) for size in ((4, 8), (8, 8), (8,)))
    return x, weight.requires_grad_(), gain.requires_grad_(), torch.zeros(8, device=device)


def serve(x, weight, cache):
    """Inference: writes a cache in place, and reads a number back."""
    cache.add_(x)
    hidden = torch.relu(cache @ weight)
    scale = hidden.sum().item()
    return torch.tanh(hidden / scale), cache.t()


def serve_inputs(device):
    """One request."""
    torch.manual_seed(0)
    return torch.randn(4, 8).to(device), torch.randn(8, 8).to(device), torch.zeros(4, 8, device=device)
