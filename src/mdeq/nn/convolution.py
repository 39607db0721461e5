"""Convolutions whose weights are normalised once a forward pass."""

import torch
from torch import Tensor, nn


class WeightNormConv2d(nn.Module):
    """A convolution without bias with weight g v / |v|, a gain g for every output channel.

    `weight` is empty except inside a pass (see `mdeq.nn.passes`), which fills it with the
    normalised weight; outside of one the weight is normalised at every call.
    """

    weight: Tensor | None

    def __init__(self, in_channels: int, out_channels: int, kernel: int, *, stride: int = 1):
        super().__init__()
        plain = nn.Conv2d(in_channels, out_channels, kernel, bias=False)
        self.stride = stride
        self.padding = kernel // 2
        self.weight_v = nn.Parameter(plain.weight.detach())
        self.weight_g = nn.Parameter(_norm(self.weight_v.detach()))
        self.register_buffer("weight", None, persistent=False)

    def normalised(self) -> Tensor:
        """The weight in force, in the memory format of `weight_v`."""
        weight = torch._weight_norm(self.weight_v, self.weight_g, 0)
        if self.weight_v.is_contiguous():
            return weight
        return weight.contiguous(memory_format=torch.channels_last)

    @torch.no_grad()
    def set_weight(self, weight: Tensor) -> None:
        """Choose v and g such that `weight` is in force."""
        self.weight_v.copy_(weight)
        self.weight_g.copy_(_norm(weight))

    def forward(self, x: Tensor) -> Tensor:
        """Convolve."""
        weight = self.normalised() if self.weight is None else self.weight
        return nn.functional.conv2d(x, weight, stride=self.stride, padding=self.padding)

    def extra_repr(self) -> str:
        """Describe like nn.Conv2d does."""
        out_channels, in_channels, kernel, _ = self.weight_v.shape
        return f"{in_channels}, {out_channels}, kernel_size={kernel}, stride={self.stride}"


def conv(
    in_channels: int, out_channels: int, kernel: int, *, stride: int = 1, weight_norm: bool
) -> nn.Module:
    """A convolution that keeps the size (divided by the stride), without bias."""
    if weight_norm:
        return WeightNormConv2d(in_channels, out_channels, kernel, stride=stride)
    return nn.Conv2d(
        in_channels, out_channels, kernel, stride=stride, padding=kernel // 2, bias=False
    )


def _norm(weight: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(weight, dim=(1, 2, 3), keepdim=True)
    return norm
