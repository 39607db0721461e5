"""What turns the equilibrium of all scales into an answer. One head a task."""

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, relu

EXPANSION = 4


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions around a shortcut: from `channels` to four times `width`."""

    def __init__(self, channels: int, width: int, *, momentum: float) -> None:
        super().__init__()
        out = EXPANSION * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width, momentum=momentum, affine=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width, momentum=momentum, affine=False)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(out, momentum=momentum, affine=False)
        self.shortcut: nn.Module = nn.Identity()
        if channels != out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out, momentum=momentum)
            )

    def forward(self, z: Tensor) -> Tensor:
        """Widen one scale."""
        y = relu(self.norm1(self.conv1(z)))
        y = relu(self.norm2(self.conv2(y)))
        return relu(self.norm3(self.conv3(y)) + self.shortcut(z))


class ConvNormReLU(nn.Sequential):
    """A convolution with bias, BatchNorm and ReLU."""

    def __init__(self, source: int, target: int, kernel: int, stride: int, momentum: float) -> None:
        super().__init__(
            nn.Conv2d(source, target, kernel, stride, padding=kernel // 2),
            nn.BatchNorm2d(target, momentum=momentum),
            nn.ReLU(),
        )


class ClassificationHead(nn.Module):
    """All scales make the prediction: each is widened, halved and added to the next coarser one."""

    def __init__(
        self,
        channels: tuple[int, ...],
        num_classes: int,
        *,
        widths: tuple[int, ...],
        final_width: int,
        momentum: float,
    ) -> None:
        super().__init__()
        wide = [EXPANSION * width for width in widths]
        self.widen = nn.ModuleList(
            Bottleneck(c, width, momentum=momentum)
            for c, width in zip(channels, widths, strict=True)
        )
        self.halve = nn.ModuleList(ConvNormReLU(a, b, 3, 2, momentum) for a, b in pairwise(wide))
        self.final = ConvNormReLU(wide[-1], final_width, 1, 1, momentum)
        self.classifier = nn.Linear(final_width, num_classes)

    def forward(self, scales: list[Tensor]) -> Tensor:
        """Logits (B, K)."""
        y = self.widen[0](scales[0])
        for scale, widen, halve in zip(scales[1:], self.widen[1:], self.halve, strict=True):
            y = widen(scale) + halve(y)
        logits: Tensor = self.classifier(self.final(y).mean(dim=(2, 3)))
        return logits


class SegmentationHead(nn.Module):
    """A class for every pixel, from the finest scale or from all scales upsampled to it."""

    def __init__(
        self,
        channels: tuple[int, ...],
        num_classes: int,
        *,
        scales: Literal["finest", "all"],
        stride: int,
        momentum: float,
    ) -> None:
        super().__init__()
        self.scales = scales
        self.stride = stride  # pixels of the image to one of the finest scale
        width = sum(channels) if scales == "all" else channels[0]
        self.final = ConvNormReLU(width, width, 1, 1, momentum)
        self.classifier = nn.Conv2d(width, num_classes, 1)

    def forward(self, scales: list[Tensor], size: tuple[int, int]) -> Tensor:
        """Logits (B, K, H, W), cropped to the size (H, W) of the image."""
        y = scales[0]
        if self.scales == "all":
            finest = y.shape[2:]
            others = [
                interpolate(scale, finest, mode="bilinear", align_corners=True)
                for scale in scales[1:]
            ]
            y = torch.cat([y, *others], dim=1)
        logits: Tensor = self.classifier(self.final(y))
        if self.stride > 1:
            logits = interpolate(logits, scale_factor=float(self.stride), mode="bilinear")
        return logits[:, :, : size[0], : size[1]]
