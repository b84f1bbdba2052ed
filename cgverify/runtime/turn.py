"""Whose turn it is on the device: calls that use the same memory are ordered one after the other, on any stream."""

from __future__ import annotations

import torch


class Turn:
    """Whose turn it is on the device: the stream on which the last call of an exclusion domain was enqueued."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.stream = torch.cuda.current_stream(device)
        self.handle: int = self.stream.cuda_stream

    def take(self) -> None:
        """Orders what this thread's current stream, another one, does next after everything the last call enqueued."""
        stream = torch.cuda.current_stream(self._device)
        stream.wait_stream(self.stream)
        self.stream, self.handle = stream, stream.cuda_stream
