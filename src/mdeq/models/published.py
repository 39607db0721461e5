"""Networks of the literature that the paper compares with, as other libraries have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import timm
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from mdeq.models.base import MissingLibraryError, ModelConfig
from mdeq.models.saving import Saved
from mdeq.solvers import check_choice

LIBRARIES = ("timm", "torchvision", "hrnet", "segmentation_models_pytorch")
DIVISOR = 32  # of height and width, which some segmentation networks halve five times


@dataclass(frozen=True, kw_only=True)
class PublishedConfig(ModelConfig):
    """A network that a library knows by name.

    Attributes:
        library: "timm", "torchvision", "segmentation_models_pytorch", or "hrnet" for the
            branches of timm's HRNets with the head that segments.
        architecture: The name there.
        options: What else the library is told; for "hrnet" nothing.
        small_images: Whether the stem is replaced by a 3x3 convolution that keeps the size of the
            image; for timm's DenseNets.
        network: What config.json tells the kinds of models apart by.
    """

    library: str
    architecture: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    small_images: bool = False
    network: str = "published"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("library", self.library, LIBRARIES)
        check_choice("network", self.network, ("published",))
        if not isinstance(self.options, Mapping):
            raise ValueError(f"options is {self.options!r}; expected a mapping of names to values")
        object.__setattr__(self, "options", dict(self.options))
        densenet = self.library == "timm" and self.architecture.startswith("densenet")
        if self.small_images and not densenet:
            raise ValueError(
                f"small_images is for timm's DenseNets, not for {self.architecture}; leave it out"
            )
        if self.options and self.library == "hrnet":
            raise ValueError(f"options is {self.options}; an HRNet takes none; leave them out")
        self.only("segmentation" if self._segments else "classification")

    @property
    def _segments(self) -> bool:
        dense = ("fcn_", "deeplabv3_", "lraspp_")  # of torchvision's
        return self.library in ("hrnet", "segmentation_models_pytorch") or (
            self.library == "torchvision" and self.architecture.startswith(dense)
        )

    @property
    def channels(self) -> tuple[int, ...]:
        """Of scales, of which an explicit network has none."""
        return ()

    @property
    def classes(self) -> int:
        """Of its task."""
        return next(iter(self.tasks.values()))


class Published(Saved):
    """A network of another library, under our trainer."""

    def __init__(self, config: PublishedConfig) -> None:
        super().__init__()
        if not isinstance(config, PublishedConfig):
            raise ValueError(f"config is {config!r}; expected a PublishedConfig")
        self.config = config
        try:
            self.layers = _layers(config)
        except MissingLibraryError:
            raise
        except (KeyError, RuntimeError, TypeError, ValueError) as error:  # of wrong names
            raise ValueError(
                f"{config.library} cannot make {config.architecture!r} with options "
                f"{dict(config.options)}: {error}"
            ) from None

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, K), or (B, K, H, W) at the size of the image."""
        if "classification" in self.config.tasks:
            logits: Tensor = self.layers(images)
            return logits
        height, width = images.shape[2:]
        padded = pad(images, (0, -width % DIVISOR, 0, -height % DIVISOR))
        out = self.layers(padded)
        logits = out["out"] if isinstance(out, Mapping) else out  # torchvision names its heads
        if logits.shape[2:] != padded.shape[2:]:
            size = list(padded.shape[2:])
            logits = interpolate(logits, size, mode="bilinear", align_corners=False)
        return logits[:, :, :height, :width]


class HRNetSegmenter(nn.Module):
    """HRNetV2: all branches, brought to the size of the finest, vote for the class of a pixel."""

    def __init__(self, architecture: str, classes: int, in_channels: int) -> None:
        super().__init__()
        self.branches = timm.create_model(
            architecture,
            features_only=True,
            feature_location="",  # the branches themselves, before timm widens them
            out_indices=(1, 2, 3, 4),
            in_chans=in_channels,
        )
        width = sum(self.branches.feature_info.channels())  # type: ignore[operator, union-attr]
        self.head = nn.Sequential(
            nn.Conv2d(width, width, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, classes, 1),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Logits at a quarter of the size of the image."""
        finest, *others = self.branches(images)
        size = list(finest.shape[2:])
        enlarged = [interpolate(z, size, mode="bilinear", align_corners=False) for z in others]
        logits: Tensor = self.head(torch.cat([finest, *enlarged], dim=1))
        return logits


def _layers(config: PublishedConfig) -> nn.Module:
    if config.library == "hrnet":
        return HRNetSegmenter(config.architecture, config.classes, config.in_channels)
    if config.library == "timm":
        layers: nn.Module = timm.create_model(
            config.architecture,
            num_classes=config.classes,
            in_chans=config.in_channels,
            **config.options,
        )
        if config.small_images:
            _keep_size(layers)
        return layers
    if config.library == "torchvision":
        if config.in_channels != 3:
            raise ValueError(f"in_channels is {config.in_channels}; {config.architecture} takes 3")
        from torchvision.models import get_model  # slow to import

        own: nn.Module = get_model(
            config.architecture, weights=None, num_classes=config.classes, **config.options
        )
        return own
    try:
        import segmentation_models_pytorch
    except ImportError:
        raise MissingLibraryError(
            f"{config.architecture} needs a library: pip install segmentation-models-pytorch"
        ) from None
    made: nn.Module = segmentation_models_pytorch.create_model(
        config.architecture,
        encoder_weights=None,
        in_channels=config.in_channels,
        classes=config.classes,
        **config.options,
    )
    return made


def _keep_size(densenet: Any) -> None:
    """A stem for small images, as in the CIFAR-10 networks of the DenseNet paper."""
    first = densenet.features.conv0
    densenet.features.conv0 = nn.Conv2d(
        first.in_channels, first.out_channels, 3, padding=1, bias=False
    )
    nn.init.kaiming_normal_(densenet.features.conv0.weight)  # as timm's own
    densenet.features.pool0 = nn.Identity()
