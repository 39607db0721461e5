"""Dropout that a fixed point can live with."""

import torch
from torch import Tensor, nn


class VariationalDropout2d(nn.Module):
    """Drops whole channels, the same ones at every evaluation of f in a training step.

    A mask is drawn for every sample at the start of a pass (see `mdeq.nn.passes`) and
    kept until its end, backward solve included: with a new mask at every evaluation
    there would be no fixed point (the paper's section 3.3).
    """

    mask: Tensor | None

    def __init__(self, rate: float, channels: int) -> None:
        super().__init__()
        self.rate = rate
        self.channels = channels
        self.register_buffer("mask", None, persistent=False)

    @property
    def active(self) -> bool:
        """Whether anything is dropped."""
        return self.training and self.rate > 0

    def draw(self, like: Tensor) -> Tensor:
        """A mask for the samples of `like`, (B, C, 1, 1), scaled to keep the mean."""
        keep = 1 - self.rate
        mask = torch.empty(len(like), self.channels, 1, 1, dtype=like.dtype, device=like.device)
        return mask.bernoulli_(keep).div_(keep)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the mask of the pass."""
        if self.mask is not None:
            return x * self.mask
        return x * self.draw(x) if self.active else x

    def extra_repr(self) -> str:
        """Name the rate."""
        return f"rate={self.rate}"
