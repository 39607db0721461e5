"""The explicit networks that equilibrium models are measured against."""

from dataclasses import dataclass
from typing import Any

from timm.models import resnet as timm_resnet
from torch import Tensor, nn

from mdeq.models.base import ModelConfig
from mdeq.models.saving import Saved
from mdeq.solvers import check_choice, check_count


@dataclass(frozen=True, kw_only=True)
class ResNetConfig(ModelConfig):
    """A ResNet for small images: its stem keeps their size.

    Attributes:
        blocks: In each of the four stages.
        channels: Of each stage.
        bottleneck: Whether a block is a bottleneck, four times as wide outside as inside.
        network: What config.json tells the kinds of models apart by.
    """

    blocks: tuple[int, ...]
    channels: tuple[int, ...] = (64, 128, 256, 512)
    bottleneck: bool = False
    network: str = "resnet"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("blocks", "channels"):
            values = getattr(self, name)
            if not isinstance(values, (list, tuple)) or len(values) != 4:
                raise ValueError(f"{name} is {values!r}; expected a number for each of four stages")
            for value in values:
                check_count(f"a number in {name}", value)
            object.__setattr__(self, name, tuple(values))
        # 1x1 convolutions of stride 2 with fewer than 8 channels, in channels-last order: their
        # gradient writes out of bounds on CPUs (seen with torch 2.14.1).
        if min(self.channels) < 8 or self.channels[0] % 2:
            raise ValueError(f"channels is {self.channels}; expected 8 at least, and an even first")
        check_choice("network", self.network, ("resnet",))
        self.only("classification")


class ResNet(Saved):
    """timm's ResNet, with a 3x3 convolution for a stem."""

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        if not isinstance(config, ResNetConfig):
            raise ValueError(f"config is {config!r}; expected a ResNetConfig")
        self.config = config
        width = config.channels[0]
        block: Any = timm_resnet.Bottleneck if config.bottleneck else timm_resnet.BasicBlock
        layers: Any = timm_resnet.ResNet(
            block,
            config.blocks,
            num_classes=config.tasks["classification"],
            channels=config.channels,
            stem_type="deep",  # replaced below; a plain one would have 64 channels
            stem_width=width // 2,
        )
        layers.conv1 = nn.Conv2d(config.in_channels, width, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(layers.conv1.weight, mode="fan_out", nonlinearity="relu")
        layers.maxpool = nn.Identity()
        self.layers = layers

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, K)."""
        logits: Tensor = self.layers(images)
        return logits
