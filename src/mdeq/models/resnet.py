"""The explicit networks that equilibrium models are measured against."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from timm.models import resnet as timm_resnet
from torch import Tensor, nn

from mdeq.models.saving import Saved
from mdeq.solvers import check_choice, check_count


@dataclass(frozen=True, kw_only=True)
class ResNetConfig:
    """A ResNet for small images: its stem keeps their size.

    Attributes:
        blocks: In each of the four stages.
        channels: Of each stage.
        bottleneck: Whether a block is a bottleneck, four times as wide outside as inside.
        in_channels: Of the image.
        tasks: Classes; there is a head for "classification" only.
        network: What config.json tells the kinds of models apart by.
    """

    blocks: tuple[int, ...]
    channels: tuple[int, ...] = (64, 128, 256, 512)
    bottleneck: bool = False
    in_channels: int = 3
    tasks: Mapping[str, int] = field(default_factory=lambda: {"classification": 10}, hash=False)
    network: str = "resnet"

    def __post_init__(self) -> None:
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
        check_count("in_channels", self.in_channels)
        check_choice("network", self.network, ("resnet",))
        if not isinstance(self.tasks, Mapping) or list(self.tasks) != ["classification"]:
            raise ValueError(
                f"tasks is {self.tasks!r}; a ResNet only classifies: expected "
                '{"classification": classes}'
            )
        check_count("the number of classes for classification", self.tasks["classification"])
        object.__setattr__(self, "tasks", dict(self.tasks))

    def override(self, **changes: Any) -> Self:
        """A copy with some fields changed; unknown ones are errors."""
        if "num_classes" in changes:
            changes["tasks"] = {"classification": changes.pop("num_classes")}
        for name in changes:
            check_choice("field of a ResNet", name, [f.name for f in fields(self)])
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in config.json."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; unknown fields are errors."""
        for name in values:
            check_choice("field of a ResNet", name, [f.name for f in fields(cls)])
        if "blocks" not in values:
            raise ValueError("the configuration has no blocks; expected their number in each stage")
        return cls(**values)


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
