"""Equilibria to measure on: from linear to a convolutional layer like the paper's."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

Map = Callable[[Tensor], Tensor]


class Block(nn.Module):
    """The residual block of the paper's equation (5)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 5 * channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(5 * channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(4, 5 * channels)
        self.norm2 = nn.GroupNorm(4, channels)
        self.norm3 = nn.GroupNorm(4, channels)

    def forward(self, z: Tensor, x: Tensor | float = 0.0) -> Tensor:
        """z^+ of one scale."""
        inner = self.norm1(self.conv1(z)).relu()
        out: Tensor = self.norm3((self.norm2(self.conv2(inner) + x) + z).relu())
        return out


class TwoScales(nn.Module):
    """Two residual blocks and the fusion between their scales; f(z; x) at random weights."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.fine, self.coarse = Block(channels), Block(2 * channels)
        self.down = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1, bias=False)
        self.up = nn.Conv2d(2 * channels, channels, 1, bias=False)
        self.norm_fine = nn.GroupNorm(4, channels)
        self.norm_coarse = nn.GroupNorm(4, 2 * channels)

    def forward(self, z: list[Tensor], x: Tensor) -> list[Tensor]:
        """z^+ of both scales, each mixed with the other."""
        fine, coarse = self.fine(z[0], x), self.coarse(z[1])
        up = interpolate(self.up(coarse), scale_factor=2.0, mode="bilinear")
        return [
            self.norm_fine((fine + up).relu()),
            self.norm_coarse((coarse + self.down(fine)).relu()),
        ]


def two_scales(batch: int = 16) -> tuple[Callable[[list[Tensor]], list[Tensor]], list[Tensor]]:
    """A multiscale equilibrium on random 32x32 inputs, and its start."""
    net = TwoScales()
    x = torch.randn(batch, 8, 32, 32)
    return lambda z: net(z, x), [torch.zeros(batch, 8, 32, 32), torch.zeros(batch, 16, 16, 16)]


def affine(batch: int = 16, features: int = 300) -> tuple[Map, Tensor]:
    """z = W z + b with W of spectral radius 0.95."""
    weight = torch.randn(features, features, dtype=torch.float64)
    weight *= 0.95 / torch.linalg.eigvals(weight).abs().max()
    bias = torch.randn(batch, features, dtype=torch.float64)
    return lambda z: z @ weight.T + bias, torch.zeros_like(bias)


def recurrent(batch: int = 16, features: int = 300) -> tuple[Map, Tensor]:
    """z = tanh(W z + b) with W of spectral radius about 1.5."""
    weight = 1.5 * torch.randn(features, features, dtype=torch.float64) / features**0.5
    bias = torch.randn(batch, features, dtype=torch.float64)
    return lambda z: torch.tanh(z @ weight.T + bias), torch.zeros_like(bias)


PROBLEMS: Mapping[str, Callable[[], tuple[Callable[..., object], object]]] = {
    "affine, spectral radius 0.95": affine,
    "tanh(W z + b), W of radius 1.5": recurrent,
    "two scales with GroupNorm, random weights": two_scales,
}
