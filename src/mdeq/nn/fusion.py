"""The fusion that mixes the scales."""

from itertools import pairwise
from typing import Literal

from torch import Tensor, nn
from torch.nn.functional import interpolate

from mdeq.nn.convolution import conv
from mdeq.nn.nonlinearity import Rectifier, rectified

Upsampling = Literal["bilinear", "nearest"]


class ConvNorm(nn.Module):
    """A convolution and its GroupNorm."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int,
        affine: bool = True,
        weight_norm: bool,
    ) -> None:
        super().__init__()
        self.conv = conv(in_channels, out_channels, kernel, stride=stride, weight_norm=weight_norm)
        self.norm = nn.GroupNorm(groups, out_channels, affine=affine)

    def forward(self, x: Tensor) -> Tensor:
        """GroupNorm(Conv2d(x))."""
        out: Tensor = self.norm(self.conv(x))
        return out


class Downsample(nn.Module):
    """From a finer scale to a coarser one: a stride-2 convolution for every halving."""

    def __init__(
        self, source: int, target: int, halvings: int, *, groups: int, weight_norm: bool
    ) -> None:
        super().__init__()
        widths = [source] * halvings + [target]
        self.steps = nn.ModuleList(
            ConvNorm(a, b, 3, stride=2, groups=groups, weight_norm=weight_norm)
            for a, b in pairwise(widths)
        )

    def forward(self, z: Tensor) -> Tensor:
        """Halve as often as it takes, with a ReLU between consecutive steps."""
        for index, step in enumerate(self.steps):
            z = step(rectified(z) if index else z)
        return z


class Upsample(nn.Module):
    """From a coarser scale to a finer one: match the channels, then interpolate."""

    def __init__(
        self, source: int, target: int, mode: Upsampling, *, groups: int, weight_norm: bool
    ) -> None:
        super().__init__()
        self.matched = ConvNorm(source, target, 1, groups=groups, weight_norm=weight_norm)
        self.mode = mode

    def forward(self, z: Tensor, size: tuple[int, int]) -> Tensor:
        """Interpolate to `size`."""
        corners = False if self.mode == "bilinear" else None
        return interpolate(self.matched(z), size, mode=self.mode, align_corners=corners)


class Fusion(nn.Module):
    """Every scale becomes a mixture of all: their sum, then ReLU, 1x1 convolution, GroupNorm."""

    def __init__(
        self,
        channels: tuple[int, ...],
        *,
        groups: int,
        upsampling: Upsampling,
        weight_norm: bool,
        post_groups: int,
        post_affine: bool,
        post_weight_norm: bool,
    ) -> None:
        super().__init__()
        self.paths = nn.ModuleList()  # paths[j][i]: from scale i to scale j
        for j, target in enumerate(channels):
            into_j = nn.ModuleDict()
            for i, source in enumerate(channels):
                if i < j:
                    into_j[str(i)] = Downsample(
                        source, target, j - i, groups=groups, weight_norm=weight_norm
                    )
                elif i > j:
                    into_j[str(i)] = Upsample(
                        source, target, upsampling, groups=groups, weight_norm=weight_norm
                    )
            self.paths.append(into_j)
        self.rectifiers = nn.ModuleList(Rectifier() for _ in channels)
        self.post = nn.ModuleList(
            ConvNorm(
                width,
                width,
                1,
                groups=post_groups,
                affine=post_affine,
                weight_norm=post_weight_norm,
            )
            for width in channels
        )

    def forward(self, z: list[Tensor]) -> list[Tensor]:
        """Mix the scales."""
        mixed = []
        for j, into_j in enumerate(self.paths):
            assert isinstance(into_j, nn.ModuleDict)
            total = z[j].clone()
            for source, path in into_j.items():
                i = int(source)
                total += path(z[i]) if i < j else path(z[i], total.shape[2:])
            mixed.append(self.post[j](self.rectifiers[j](total)))
        return mixed
