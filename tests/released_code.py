"""The network of the released code, written plainly from its description, with its key names.

An independent implementation to compare with: it shares nothing with the package.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class WeightNormed(nn.Module):
    def __init__(self, source: int, target: int, kernel: int) -> None:
        super().__init__()
        self.weight_v = nn.Parameter(torch.randn(target, source, kernel, kernel) * 0.1)
        self.weight_g = nn.Parameter(torch.rand(target, 1, 1, 1) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        norms = self.weight_v.pow(2).sum((1, 2, 3), keepdim=True).sqrt()
        weight = self.weight_g * self.weight_v / norms
        return F.conv2d(x, weight, padding=weight.shape[-1] // 2)


class Block(nn.Module):
    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.conv1 = WeightNormed(width, expansion * width, 3)
        self.gn1 = nn.GroupNorm(8, expansion * width)
        self.conv2 = WeightNormed(expansion * width, width, 3)
        self.gn2 = nn.GroupNorm(8, width)
        self.gn3 = nn.GroupNorm(8, width)

    def forward(self, z: Tensor, injection: Tensor | float) -> Tensor:
        out = self.conv2(F.relu(self.gn1(self.conv1(z)))) + injection
        return self.gn3(F.relu(self.gn2(out) + z))


class Branch(nn.Module):
    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(width, expansion)])


class ConvGN(nn.Module):
    def __init__(self, source: int, target: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(source, target, kernel, stride, padding=kernel // 2, bias=False)
        self.gnorm = nn.GroupNorm(8, target)


class Down(nn.Module):
    def __init__(self, source: int, target: int, times: int) -> None:
        super().__init__()
        widths = [source] * times + [target]
        self.net = nn.ModuleList(ConvGN(widths[k], widths[k + 1], 3, 2) for k in range(times))

    def forward(self, z: Tensor) -> Tensor:
        for k, step in enumerate(self.net):
            z = step.gnorm(step.conv(z))
            if k < len(self.net) - 1:
                z = F.relu(z)
        return z


class Up(nn.Module):
    def __init__(self, source: int, target: int, times: int) -> None:
        super().__init__()
        self.net = ConvGN(source, target, 1, 1)
        self.factor = 2**times

    def forward(self, z: Tensor) -> Tensor:
        z = self.net.gnorm(self.net.conv(z))
        return F.interpolate(z, scale_factor=self.factor, mode="nearest")


class PostFuse(nn.Module):
    def __init__(self, width: int, affine: bool) -> None:
        super().__init__()
        self.conv = WeightNormed(width, width, 1)
        self.gnorm = nn.GroupNorm(4, width, affine=affine)

    def forward(self, z: Tensor) -> Tensor:
        return self.gnorm(self.conv(F.relu(z)))


class FullStage(nn.Module):
    def __init__(self, channels: list[int], expansion: int, affine: bool) -> None:
        super().__init__()
        self.branches = nn.ModuleList(Branch(width, expansion) for width in channels)
        self.fuse_layers = nn.ModuleList()
        for i, target in enumerate(channels):
            into = nn.ModuleList()
            for j, source in enumerate(channels):
                if j < i:
                    into.append(Down(source, target, i - j))
                elif j > i:
                    into.append(Up(source, target, j - i))
                else:
                    into.append(nn.Identity())
            self.fuse_layers.append(into)
        self.post_fuse_layers = nn.ModuleList(PostFuse(width, affine) for width in channels)

    def forward(self, z: list[Tensor], x: Tensor) -> list[Tensor]:
        plus = [
            branch.blocks[0](scale, x if i == 0 else 0.0)
            for i, (branch, scale) in enumerate(zip(self.branches, z, strict=True))
        ]
        sums = [
            sum(path(scale) for path, scale in zip(into, plus, strict=True))
            for into in self.fuse_layers
        ]
        return [post(total) for post, total in zip(self.post_fuse_layers, sums, strict=True)]


class HeadBlock(nn.Module):
    def __init__(self, source: int, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(source, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width, affine=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width, affine=False)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width, affine=False)
        if source != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(source, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, z: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(z)))
        out = F.relu(self.bn2(self.conv2(out)))
        shortcut = self.downsample(z) if hasattr(self, "downsample") else z
        return F.relu(self.bn3(self.conv3(out)) + shortcut)


class ReleasedNet(nn.Module):
    """f stacked `depth` times, between the released stem and head."""

    def __init__(
        self,
        channels: list[int],
        *,
        expansion: int = 5,
        downsamplings: int = 0,
        affine: bool = False,
        head: list[int] | None = None,
        width: int = 200,
        classes: int = 10,
    ) -> None:
        super().__init__()
        first = channels[0]
        strides = [2 if downsamplings > k else 1 for k in range(2)]
        self.downsample = nn.Sequential(
            nn.Conv2d(3, first, 3, strides[0], padding=1, bias=False),
            nn.BatchNorm2d(first),
            nn.ReLU(),
            nn.Conv2d(first, first, 3, strides[1], padding=1, bias=False),
            nn.BatchNorm2d(first),
            nn.ReLU(),
        )
        if downsamplings > 0 or len(channels) > 2:
            self.stage0 = nn.Sequential(
                nn.Conv2d(first, first, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU()
            )
        self.fullstage = FullStage(channels, expansion, affine)
        if head is None:
            total = sum(channels)
            self.last_layer = nn.Sequential(
                nn.Conv2d(total, total, 1), nn.BatchNorm2d(total), nn.ReLU(),
                nn.Conv2d(total, classes, 1),
            )  # fmt: skip
        else:
            self.incre_modules = nn.ModuleList(
                nn.Sequential(HeadBlock(c, h)) for c, h in zip(channels, head, strict=True)
            )
            self.downsamp_modules = nn.ModuleList(
                nn.Sequential(
                    nn.Conv2d(4 * a, 4 * b, 3, 2, padding=1), nn.BatchNorm2d(4 * b), nn.ReLU()
                )
                for a, b in pairwise(head)
            )
            self.final_layer = nn.Sequential(
                nn.Conv2d(4 * head[-1], width, 1), nn.BatchNorm2d(width), nn.ReLU()
            )
            self.classifier = nn.Linear(width, classes)
        for part in self.modules():  # no batch statistic or affine parameter is left at its default
            if isinstance(part, nn.BatchNorm2d):
                part.running_mean.normal_(std=0.1)
                part.running_var.uniform_(0.5, 1.5)
            if isinstance(part, (nn.BatchNorm2d, nn.GroupNorm)) and part.affine:
                nn.init.uniform_(part.weight, 0.5, 1.5)
                nn.init.normal_(part.bias, std=0.1)

    def forward(self, images: Tensor, depth: int) -> Tensor:
        x = self.downsample(images)
        if hasattr(self, "stage0"):
            x = self.stage0(x)
        height, width = x.shape[2:]
        z = [
            x.new_zeros(len(x), branch.blocks[0].gn3.num_channels, height >> i, width >> i)
            for i, branch in enumerate(self.fullstage.branches)
        ]
        for _ in range(depth):
            z = self.fullstage(z, x)
        if hasattr(self, "last_layer"):
            up = [
                F.interpolate(scale, (height, width), mode="bilinear", align_corners=True)
                for scale in z[1:]
            ]
            return self.last_layer(torch.cat([z[0], *up], dim=1))
        y = self.incre_modules[0](z[0])
        for i, down in enumerate(self.downsamp_modules):
            y = self.incre_modules[i + 1](z[i + 1]) + down(y)
        y = self.final_layer(y)
        return self.classifier(F.avg_pool2d(y, y.shape[2:]).flatten(1))
