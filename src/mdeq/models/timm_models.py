"""The models under timm's roof: `timm.create_model("mdeq_cifar10_small")`, also features_only."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from torch import Tensor, nn

from mdeq.models.mdeq import MDEQ
from mdeq.models.presets import PRESETS


class TimmMDEQ(MDEQ):
    """An MDEQ with the interface that timm's feature extraction asks for."""

    @property
    def num_classes(self) -> int:
        """Classes of the first task."""
        return next(iter(self.config.tasks.values()))

    @property
    def feature_info(self) -> list[dict[str, Any]]:
        """Channels and stride of every scale, finest first."""
        return [
            {"num_chs": channels, "reduction": 2 ** (self.config.downsamplings + k), "module": "f"}
            for k, channels in enumerate(self.config.channels)
        ]

    def prune_intermediate_layers(self, indices: int | Sequence[int], **options: Any) -> list[int]:
        """Drop the heads, which a feature extractor does not use; an int asks for the last ones."""
        scales = len(self.config.channels)
        if isinstance(indices, int):
            indices = range(scales - indices, scales)
        for index in indices:
            if not -scales <= index < scales:
                raise ValueError(f"out_indices has {index}; expected indices of {scales} scales")
        self.heads = nn.ModuleDict()
        return [index % scales for index in indices]

    def forward_intermediates(
        self,
        x: Tensor,
        indices: Sequence[int] | None = None,
        *,
        norm: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ) -> list[Tensor] | tuple[Tensor, list[Tensor]]:
        """The equilibrium maps of the scales asked for; all are normalised already."""
        if output_fmt != "NCHW":
            raise ValueError(f"output_fmt is {output_fmt!r}; expected 'NCHW'")
        scales = self.features(x)
        chosen = scales if indices is None else [scales[index] for index in indices]
        return chosen if intermediates_only else (scales[-1], chosen)


default_cfgs = generate_default_cfgs(
    {
        name: {
            "num_classes": next(iter(config.tasks.values())),
            "input_size": (3, 224, 224) if config.downsamplings else (3, 32, 32),
            "mean": IMAGENET_DEFAULT_MEAN,
            "std": IMAGENET_DEFAULT_STD,
        }
        for name, config in PRESETS.items()
    }
)


def _create(name: str, in_chans: int = 3, num_classes: int | None = None, **overrides: Any) -> Any:
    """timm's words for ours; without classes the head ends with its features."""
    if num_classes:
        overrides["num_classes"] = num_classes
    model = TimmMDEQ(PRESETS[name].override(in_channels=in_chans, **overrides))
    if num_classes == 0:
        for head in model.heads.values():
            head.classifier = nn.Identity()
    return model


def _entrypoint(name: str) -> Callable[..., Any]:
    def create(pretrained: bool = False, **kwargs: Any) -> Any:
        scales = len(kwargs.get("channels", PRESETS[name].channels))
        return build_model_with_cfg(
            partial(_create, name),
            name,
            pretrained,
            feature_cfg={"feature_cls": "getter", "out_indices": tuple(range(scales))},
            **kwargs,
        )

    create.__name__ = name
    create.__doc__ = f"`mdeq.create_model({name!r})`, for timm."
    return create


for _name in PRESETS:
    register_model(_entrypoint(_name))
