"""Fixed-point problems with their exact answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

SOLVERS = ("broyden", "anderson", "picard")


@dataclass(frozen=True)
class Affine:
    """z = W z + b, with a matrix W for every sample; z* = (I - W)^-1 b."""

    weight: Tensor  # (B, D, D)
    bias: Tensor  # (B, D)

    @classmethod
    def random(
        cls,
        radii: Sequence[float],
        features: int,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> "Affine":
        """One sample for each spectral radius."""
        generator = torch.Generator().manual_seed(seed)
        shape = (len(radii), features, features)
        weight = torch.randn(shape, generator=generator, dtype=torch.float64)
        largest = torch.linalg.eigvals(weight).abs().amax(dim=1)
        weight *= (torch.tensor(radii, dtype=torch.float64) / largest)[:, None, None]
        bias = torch.randn(shape[:2], generator=generator, dtype=torch.float64)
        return cls(weight.to(device, dtype), bias.to(device, dtype))

    def __call__(self, z: Tensor) -> Tensor:
        return (self.weight @ z[:, :, None])[:, :, 0] + self.bias

    def __getitem__(self, index: slice) -> "Affine":
        return Affine(self.weight[index], self.bias[index])

    @property
    def solution(self) -> Tensor:
        identity = torch.eye(self.bias.shape[1]).to(self.weight)
        return torch.linalg.solve(identity - self.weight, self.bias)

    def zeros(self) -> Tensor:
        return torch.zeros_like(self.bias)


def on_scales(
    f: Callable[[Tensor], Tensor], shapes: Sequence[tuple[int, ...]]
) -> Callable[[list[Tensor]], list[Tensor]]:
    """A map of flat states as a map of lists of scales of the given shapes."""

    def map_of_scales(scales: list[Tensor]) -> list[Tensor]:
        return split_scales(f(join_scales(scales)), shapes)

    return map_of_scales


def split_scales(flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    sizes = [torch.Size(shape).numel() for shape in shapes]
    rows = flat.split(sizes, dim=1)
    return [row.reshape(len(flat), *shape) for row, shape in zip(rows, shapes, strict=True)]


def join_scales(scales: Sequence[Tensor]) -> Tensor:
    return torch.cat([scale.reshape(len(scale), -1) for scale in scales], dim=1)


class ConvNet(nn.Module):
    """A small contraction of two scales: f(z; x) with convolutions between the scales."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Conv2d(2, 2, 3, padding=1)
        self.coarse = nn.Conv2d(3, 3, 3, padding=1)
        self.down = nn.Conv2d(2, 3, 3, stride=2, padding=1)
        self.up = nn.Conv2d(3, 2, 1)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(0.5)

    def forward(self, z: list[Tensor], x: Tensor) -> list[Tensor]:
        fine, coarse = z
        up = nn.functional.interpolate(self.up(coarse), scale_factor=2.0)
        return [
            torch.tanh(self.fine(fine) + up + x),
            torch.tanh(self.coarse(coarse) + self.down(fine)),
        ]

    def zeros(self, x: Tensor) -> list[Tensor]:
        batch, _, height, width = x.shape
        return [torch.zeros_like(x), x.new_zeros(batch, 3, height // 2, width // 2)]


@torch.no_grad()
def contract(model: Any) -> Any:
    """Weaken all that depends on z against what comes from x, so that f has one fixed point."""
    f = model.f
    f.blocks[0].conv2.weight_g.mul_(0.1)
    for block in f.blocks[1:]:
        block.norm3.weight.mul_(0.1)
    for j, paths in enumerate(f.fusion.paths):
        f.fusion.post[j].norm.weight.mul_(0.1)
        for i, path in paths.items():
            if int(i) > j:
                path.matched.norm.weight.mul_(0.1)
    return model
