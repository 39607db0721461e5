"""The models by name: the paper's table of hyperparameters (appendix A), and the released code's.

The paper gives no widths for the classification heads. Ours are chosen to meet its model
sizes. The rest of what it leaves open, the make-up of stem and heads and their norms, is the
released code's.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mdeq.models.config import MDEQConfig
from mdeq.models.ode import NeuralODEConfig
from mdeq.models.published import PublishedConfig
from mdeq.models.resnet import ResNetConfig
from mdeq.solvers import SolverConfig


def budgets(forward: int, backward: int, memory: int) -> dict[str, Any]:
    """The paper's T_f, T_b and m, for Broyden's method in both directions."""
    return {
        "solver": SolverConfig(max_steps=forward, memory=memory),
        "backward": {"mode": "implicit", "max_steps": backward, "memory": memory},
    }


FAST: Mapping[str, Any] = MappingProxyType(
    {
        "solver": {"solver": "anderson", "max_steps": 6, "memory": None},
        "backward": {"mode": "phantom", "steps": 2, "tau": 0.7},
    }
)
"""The training mode that docs/performance.md recommends, in place of the paper's budgets."""

CIFAR10 = budgets(15, 18, 12)
IMAGENET = budgets(22, 25, 18)
CITYSCAPES = budgets(27, 30, 18)

_small = MDEQConfig(
    channels=(32, 64, 128, 256),
    downsamplings=2,
    tasks={"classification": 1000},
    head_channels=(27, 54, 108, 216),
    head_width=2048,
    **IMAGENET,
)
_large = _small.override(channels=(80, 160, 320, 640), head_channels=(24, 48, 96, 192))
_xl = _small.override(channels=(88, 176, 352, 704), head_channels=(36, 72, 144, 288))
_unrolled = {"mode": "unrolled", "steps": 5}


def segmenting(config: MDEQConfig, dropout: float, **differences: Any) -> MDEQConfig:
    """The same model, backbone unchanged, with a segmentation head in place of the other."""
    return config.override(
        tasks={"segmentation": 19}, head_channels=(), dropout=dropout, **CITYSCAPES, **differences
    )


def released(config: MDEQConfig, **differences: Any) -> MDEQConfig:
    """The variant of the authors' released code; docs/models.md lists what differs."""
    return config.override(
        groups=8,
        post_groups=4,
        path_weight_norm=False,
        upsampling="nearest",
        segmentation_scales="all",
        **differences,
    )


_official_small = released(_small, head_channels=(24, 48, 96, 192))
_official_large = released(_large, head_channels=(32, 64, 128, 256))
_official_xl = released(_xl, head_channels=(32, 64, 128, 256), expansion=6)

PRESETS: Mapping[str, MDEQConfig] = MappingProxyType(
    {
        "mdeq_cifar10_small": MDEQConfig(
            channels=(8, 16, 32),
            dropout=0.2,
            head_channels=(4, 8, 16),
            head_width=64,
            **CIFAR10,
        ),
        "mdeq_cifar10": MDEQConfig(
            channels=(28, 56, 112, 224),
            dropout=0.25,
            head_channels=(17, 34, 68, 136),
            head_width=1680,
            **CIFAR10,
        ),
        "mdeq_imagenet_small": _small,
        "mdeq_imagenet_large": _large,
        "mdeq_imagenet_large_unrolled": _large.override(backward=_unrolled),
        "mdeq_imagenet_xl": _xl,
        "mdeq_cityscapes_small": segmenting(_small, dropout=0.03),
        "mdeq_cityscapes_large": segmenting(_large, dropout=0.05),
        "mdeq_cityscapes_xl": segmenting(_xl, dropout=0.05),
        "mdeq_camvid": MDEQConfig(
            channels=(24, 48, 96, 128),
            expansion=2,
            downsamplings=2,
            tasks={"segmentation": 11},
            head_channels=(8, 16, 32, 64),  # for pretraining as a classifier
            segmentation_scales="all",
            **CITYSCAPES,
        ),
        "official_cifar10_tiny": MDEQConfig(
            channels=(24, 24),
            groups=8,
            post_groups=4,
            post_affine=False,
            path_weight_norm=False,
            upsampling="nearest",
            stem_projection=False,
            dropout=0.2,
            head_channels=(8, 16),
            head_width=200,
            **budgets(18, 20, 12),
        ),
        "official_cifar10_large": _official_small.override(
            downsamplings=0,
            post_affine=False,
            tasks={"classification": 10},
            head_channels=(14, 28, 56, 112),
            head_width=1680,
            dropout=0.25,
            **budgets(18, 20, 12),
        ),
        "official_imagenet_small": _official_small,
        "official_imagenet_large": _official_large,
        "official_imagenet_xl": _official_xl,
        "official_cityscapes_small": segmenting(_official_small, dropout=0.03, norm_momentum=0.01),
        "official_cityscapes_large": segmenting(_official_large, dropout=0.05, norm_momentum=0.01),
        "official_cityscapes_xl": segmenting(_official_xl, dropout=0.05, norm_momentum=0.01),
        "deq_cifar10_small": MDEQConfig(
            channels=(36,),
            dropout=0.2,
            head_channels=(32,),
            head_width=128,
            **CIFAR10,
        ),
        "deq_imagenet_small": MDEQConfig(
            channels=(376,),
            downsamplings=2,
            tasks={"classification": 1000},
            head_channels=(128,),
            head_width=2048,
            **IMAGENET,
        ),
    }
)


def imagenet(library: str, architecture: str, **options: Any) -> PublishedConfig:
    """A classifier of the paper's table 2."""
    return PublishedConfig(
        library=library,
        architecture=architecture,
        tasks={"classification": 1000},
        options=options,
    )


def cityscapes(library: str, architecture: str, **options: Any) -> PublishedConfig:
    """A segmentation network of the paper's table 3."""
    return PublishedConfig(
        library=library, architecture=architecture, tasks={"segmentation": 19}, options=options
    )


NETWORKS: Mapping[str, ResNetConfig | NeuralODEConfig | PublishedConfig] = MappingProxyType(
    {
        "node_cifar10": NeuralODEConfig(filters=124),
        "anode_cifar10": NeuralODEConfig(filters=64, augment=10),
        "resnet18_cifar10_small": ResNetConfig(blocks=(2, 2, 2, 2), channels=(8, 16, 32, 64)),
        "resnet18_cifar10": ResNetConfig(blocks=(2, 2, 2, 2), channels=(60, 120, 240, 480)),
        "resnet101_cifar10": ResNetConfig(blocks=(3, 4, 23, 3), bottleneck=True),
        "densenet121_cifar10": PublishedConfig(
            library="timm", architecture="densenet121", small_images=True
        ),
        "alexnet_imagenet": imagenet("torchvision", "alexnet"),
        "resnet18_imagenet": imagenet("timm", "resnet18"),
        "resnet34_imagenet": imagenet("timm", "resnet34"),
        "inception_imagenet": imagenet(
            "torchvision", "googlenet", aux_logits=False, init_weights=True
        ),
        "resnet50_imagenet": imagenet("timm", "resnet50"),
        "hrnet_w18_imagenet": imagenet("timm", "hrnet_w18"),
        "resnet101_imagenet": imagenet("timm", "resnet101"),
        "wide_resnet50_imagenet": imagenet("timm", "wide_resnet50_2"),
        "densenet264_imagenet": imagenet("timm", "densenet264d"),
        "hrnet_w18_small_cityscapes": cityscapes("hrnet", "hrnet_w18_small_v2"),
        "unetplusplus_cityscapes": cityscapes(
            "segmentation_models_pytorch", "unetplusplus", encoder_name="resnet101"
        ),
        "dilated_resnet101_cityscapes": cityscapes(
            "torchvision", "fcn_resnet101", weights_backbone=None, aux_loss=False
        ),
        "pspnet_cityscapes": cityscapes(
            "segmentation_models_pytorch",
            "pspnet",
            encoder_name="resnet101",
            encoder_depth=5,
        ),
        "deeplabv3_cityscapes": cityscapes(
            "torchvision", "deeplabv3_resnet101", weights_backbone=None, aux_loss=False
        ),
        "hrnet_w48_cityscapes": cityscapes("hrnet", "hrnet_w48"),
    }
)
"""The other networks of the paper's tables 1 to 3 and of figure 4."""
