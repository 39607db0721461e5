"""From the image to the injection x."""

from torch import Tensor, nn
from torch.nn.functional import relu


class Stem(nn.Module):
    """Two 3x3 convolutions, of stride 2 for each downsampling, and a 1x1 `projection`.

    The paper asks for "a linear layer that aligns the feature channels" and for two
    downsamplings on large images; norms and nonlinearities are those of the released code.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        *,
        downsamplings: int,
        projection: bool,
        momentum: float,
    ) -> None:
        super().__init__()
        strides = [2 if downsamplings > k else 1 for k in range(2)]
        self.conv1 = nn.Conv2d(in_channels, channels, 3, strides[0], padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels, momentum=momentum)
        self.conv2 = nn.Conv2d(channels, channels, 3, strides[1], padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels, momentum=momentum)
        if projection:
            self.conv3 = nn.Conv2d(channels, channels, 1, bias=False)
            self.norm3 = nn.BatchNorm2d(channels, momentum=momentum)
        self.projection = projection

    def forward(self, images: Tensor) -> Tensor:
        """The injection x at the finest scale."""
        x = relu(self.norm1(self.conv1(images)))
        x = relu(self.norm2(self.conv2(x)))
        return relu(self.norm3(self.conv3(x))) if self.projection else x
