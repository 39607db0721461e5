"""f_theta, the one layer of a multiscale equilibrium model (the paper's section 3.2)."""

from typing import Literal

import torch
from torch import Tensor, nn

from mdeq.nn.block import ResidualBlock
from mdeq.nn.convolution import WeightNormConv2d
from mdeq.nn.fusion import Fusion, Upsampling
from mdeq.nn.nonlinearity import Rectifier
from mdeq.nn.passes import Pass, one_pass

Initialisation = Literal["fan_in", "paper"]


class Transformation(nn.Module):
    """f(z; x): a residual block on every scale, then the fusion of all scales."""

    def __init__(
        self,
        channels: tuple[int, ...],
        *,
        expansion: int = 5,
        groups: int = 4,
        dropout: float = 0.0,
        upsampling: Upsampling = "bilinear",
        weight_norm: bool = True,
        path_weight_norm: bool = True,
        post_groups: int | None = None,
        post_affine: bool = True,
        initialisation: Initialisation = "paper",
    ) -> None:
        super().__init__()
        self.channels = channels
        self.blocks = nn.ModuleList(
            ResidualBlock(
                width, expansion=expansion, groups=groups, dropout=dropout, weight_norm=weight_norm
            )
            for width in channels
        )
        self.fusion = Fusion(
            channels,
            groups=groups,
            upsampling=upsampling,
            weight_norm=weight_norm and path_weight_norm,
            post_groups=post_groups or groups,
            post_affine=post_affine,
            post_weight_norm=weight_norm,
        )
        if initialisation == "paper":
            self._initialise_as_in_the_paper()

    def forward(self, z: list[Tensor], x: Tensor) -> list[Tensor]:
        """f(z; x); x enters at the finest scale only."""
        blocks = [
            block(scale, x if k == 0 else None)
            for k, (block, scale) in enumerate(zip(self.blocks, z, strict=True))
        ]
        out: list[Tensor] = self.fusion(blocks)
        return out

    def at(self, x: Tensor) -> Pass:
        """f(.; x) for one forward pass: weights normalised and masks drawn once."""
        if x.is_inference():
            with torch.inference_mode(False):
                x = x.clone()
        return one_pass(self, x)

    def start(self, x: Tensor) -> list[Tensor]:
        """z = 0 at every scale: the memory format of x, the precision of f's parameters."""
        height, width = x.shape[2:]
        dtype = next(self.parameters()).dtype  # autocast may have lowered that of x
        last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        memory_format = torch.channels_last if last else torch.contiguous_format
        return [
            torch.zeros(
                (len(x), channels, height >> k, width >> k), dtype=dtype, device=x.device
            ).contiguous(memory_format=memory_format)
            for k, channels in enumerate(self.channels)
        ]

    def set_softplus(self, beta: float | None) -> None:
        """Put softplus in place of the last ReLU of blocks and fusion; None puts ReLU back."""
        for module in self.modules():
            if isinstance(module, Rectifier):
                module.beta = beta

    @torch.no_grad()
    def _initialise_as_in_the_paper(self) -> None:
        """Draw every weight in force from N(0, 0.01), 0.01 read as the standard deviation."""
        for module in self.modules():
            if isinstance(module, WeightNormConv2d):
                module.set_weight(torch.randn_like(module.weight_v) * 0.01)
            elif isinstance(module, nn.Conv2d):
                module.weight.normal_(std=0.01)
