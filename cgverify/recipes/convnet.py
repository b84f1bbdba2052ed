"""A small residual convolutional net with batch normalisation, whose running statistics every training step writes."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


class Residual(nn.Module):
    """Two normalised convolutions around which the input is added; the first may halve height and width."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inside, height, width) to (batch, outside, height / stride, width / stride)."""
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ConvNet(nn.Module):
    """An image classifier.

    Args:
        width: channels of the first block; each later one has twice as many.
        blocks: how many.
        classes: how many.
    """

    def __init__(self, width: int = 8, blocks: int = 2, classes: int = 10) -> None:
        super().__init__()
        sizes = [width << block for block in range(blocks)]
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.blocks = nn.Sequential(
            *(Residual(sizes[max(k - 1, 0)], size, 1 + (k > 0)) for k, size in enumerate(sizes))
        )
        self.head = nn.Linear(sizes[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        """(batch, 3, height, width) to scores (batch, classes)."""
        x = self.blocks(self.stem(images))
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores
