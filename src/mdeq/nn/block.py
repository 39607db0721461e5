"""The residual block of one scale."""

from torch import Tensor, nn

from mdeq.nn.convolution import conv
from mdeq.nn.dropout import VariationalDropout2d
from mdeq.nn.nonlinearity import Rectifier, rectified


class ResidualBlock(nn.Module):
    """The paper's equation (5).

    z~  = GroupNorm(Conv2d(z))
    z^  = GroupNorm(Conv2d(ReLU(z~)) + x)      x at the finest scale only
    z^+ = GroupNorm(ReLU(z^ + z))
    """

    def __init__(
        self, channels: int, *, expansion: int, groups: int, dropout: float, weight_norm: bool
    ) -> None:
        super().__init__()
        inner = expansion * channels
        self.conv1 = conv(channels, inner, 3, weight_norm=weight_norm)
        self.norm1 = nn.GroupNorm(groups, inner)
        self.conv2 = conv(inner, channels, 3, weight_norm=weight_norm)
        self.dropout = VariationalDropout2d(dropout, channels)
        self.norm2 = nn.GroupNorm(groups, channels)
        self.rectifier = Rectifier()
        self.norm3 = nn.GroupNorm(groups, channels)

    def forward(self, z: Tensor, x: Tensor | None = None) -> Tensor:
        """z^+ from z, and at the finest scale from the injection x."""
        inner = self.dropout(self.conv2(rectified(self.norm1(self.conv1(z)))))
        z_hat = self.norm2(inner if x is None else inner + x)
        out: Tensor = self.norm3(self.rectifier(z_hat + z))
        return out
