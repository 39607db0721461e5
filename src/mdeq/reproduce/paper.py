"""The paper's three tables of results, and which of our models stands for which of their lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of a table.

    Attributes:
        name: What the paper calls it.
        size: Millions of parameters, as published; None where the paper gives none.
        scores: As published, in percent, one for every column of the table.
        deviation: Of the first score, over the paper's five runs, where it is given.
        source: What the paper cites for it.
        model: The preset; None where none of the libraries that we use has the network.
        recipe: That trains it, where it is not the table's: with all options.
        note: Why our size differs from the published one.
    """

    name: str
    size: float | None
    scores: tuple[float, ...]
    source: str
    deviation: float | None = None
    model: str | None = None
    recipe: str | None = None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the paper.

    Attributes:
        title: What it shows.
        dataset: That all were trained on.
        task: Whose scores they are.
        scores: Names of the columns of scores, and of the figures in `--json`.
        recipe: That trains its networks; {model} is the preset.
        entries: Its lines.
    """

    title: str
    dataset: str
    task: str
    scores: Mapping[str, str]
    recipe: str
    entries: tuple[Entry, ...]

    def command(self, entry: Entry) -> str | None:
        """What trains a network of the table."""
        if entry.model is None:
            return None
        recipe = entry.recipe or self.recipe.format(model=entry.model)
        name, _, options = recipe.partition(" ")
        return " ".join(["mdeq train", name, "--data DIR", *([options] if options else [])])


OWN = "the paper itself"
HE = "He et al., 2016"
SUN = "Sun et al., 2019"
DUPONT = "Dupont et al., 2019"
LIU = "Liu et al., 2019"

CIFAR10 = Table(
    title="CIFAR-10 (the paper's table 1)",
    dataset="cifar10",
    task="classification",
    scores={"accuracy": "top1"},
    recipe='cifar10-small --model.name {model} --softplus.length "0 steps"',
    entries=(
        Entry(
            name="Neural ODE", size=0.172, scores=(53.7,), deviation=0.2, source=DUPONT,
            model="node_cifar10",
        ),
        Entry(
            name="augmented Neural ODE", size=0.172, scores=(60.6,), deviation=0.4, source=DUPONT,
            model="anode_cifar10",
        ),
        Entry(
            name="single-stream DEQ", size=0.17, scores=(82.2,), deviation=0.3, source=OWN,
            model="deq_cifar10_small", recipe="cifar10-small --model.name deq_cifar10_small",
        ),
        Entry(
            name="ResNet-18", size=0.17, scores=(81.6,), deviation=0.3, source=OWN,
            model="resnet18_cifar10_small", recipe="cifar10-resnet",
        ),
        Entry(
            name="MDEQ-small", size=0.17, scores=(87.1,), deviation=0.4, source=OWN,
            model="mdeq_cifar10_small", recipe="cifar10-small",
        ),
        Entry(
            name="ResNet-18, augmented data", size=10, scores=(92.9,), deviation=0.2, source=OWN,
            model="resnet18_cifar10",
            recipe="cifar10-resnet --model.name resnet18_cifar10 --dataset.augment true "
            '--length "200 epochs"',
        ),
        Entry(
            name="MDEQ, augmented data", size=10, scores=(93.8,), deviation=0.3, source=OWN,
            model="mdeq_cifar10", recipe="cifar10",
        ),
    ),
)  # fmt: skip

IMAGENET = Table(
    title="ImageNet (the paper's table 2)",
    dataset="imagenet",
    task="classification",
    scores={"top-1": "top1", "top-5": "top5"},
    recipe='imagenet-small --model.name {model} --shallow.length "0 steps"',
    entries=(
        Entry(
            name="AlexNet", size=238, scores=(57.0, 80.3), source="Krizhevsky et al., 2012",
            model="alexnet_imagenet", note="238 is about the megabytes of its weights",
        ),
        Entry(
            name="ResNet-18", size=13, scores=(70.2, 89.9), source=HE, model="resnet18_imagenet",
            note="timm's and torchvision's have 11.7 M",
        ),
        Entry(name="ResNet-34", size=21, scores=(74.8, 91.1), source=HE, model="resnet34_imagenet"),
        Entry(
            name="Inception-V2", size=12, scores=(74.8, 92.2), source="Ioffe and Szegedy, 2015",
            model="inception_imagenet",
            note="torchvision's GoogLeNet with BatchNorm is the nearest, and narrower",
        ),
        Entry(name="ResNet-50", size=26, scores=(75.1, 92.5), source=HE, model="resnet50_imagenet"),
        Entry(
            name="HRNet-W18-C", size=21, scores=(76.8, 93.4), source=SUN,
            model="hrnet_w18_imagenet",
        ),
        Entry(
            name="single-stream DEQ", size=18, scores=(72.9, 91.0), source=OWN,
            model="deq_imagenet_small", recipe="imagenet-small --model.name deq_imagenet_small",
        ),
        Entry(
            name="MDEQ-small", size=18, scores=(75.5, 92.7), source=OWN,
            model="mdeq_imagenet_small", recipe="imagenet-small",
        ),
        Entry(
            name="ResNet-101", size=52, scores=(77.1, 93.5), source=HE, model="resnet101_imagenet",
            note="timm's and torchvision's have 44.5 M",
        ),
        Entry(
            name="W-ResNet-50", size=69, scores=(78.1, 93.9),
            source="Zagoruyko and Komodakis, 2016", model="wide_resnet50_imagenet",
        ),
        Entry(
            name="DenseNet-264", size=74, scores=(79.7, 94.8), source="Huang et al., 2017",
            model="densenet264_imagenet",
        ),
        Entry(
            name="MDEQ-large", size=63, scores=(77.5, 93.6), source=OWN,
            model="mdeq_imagenet_large", recipe="imagenet-large",
        ),
        Entry(
            name="unrolled 5-layer MDEQ-large", size=63, scores=(75.9, 93.0), source=OWN,
            model="mdeq_imagenet_large_unrolled",
            recipe="imagenet-large --model.name mdeq_imagenet_large_unrolled",
        ),
        Entry(
            name="MDEQ-XL", size=81, scores=(79.2, 94.5), source=OWN, model="mdeq_imagenet_xl",
            recipe="imagenet-xl",
        ),
    ),
)  # fmt: skip

CITYSCAPES = Table(
    title="Cityscapes, val (the paper's table 3)",
    dataset="cityscapes",
    task="segmentation",
    scores={"mIoU": "miou"},
    recipe="cityscapes-small --model.name {model}",
    entries=(
        Entry(name="ResNet-18-A", size=3.8, scores=(55.4,), source=LIU),
        Entry(name="ResNet-18-B", size=15.24, scores=(69.1,), source=LIU),
        Entry(name="MobileNetV2Plus", size=8.3, scores=(74.5,), source="Sandler et al., 2018"),
        Entry(name="GSCNN", size=None, scores=(73.0,), source="Takikawa et al., 2019"),
        Entry(
            name="HRNetV2-W18-Small-v2", size=4.0, scores=(76.0,), source=SUN,
            model="hrnet_w18_small_cityscapes",
        ),
        Entry(
            name="MDEQ-small", size=7.8, scores=(75.1,), source=OWN,
            model="mdeq_cityscapes_small", recipe="cityscapes-small --init RUN",
            note="7.8 M is about the residual blocks alone",
        ),
        Entry(
            name="U-Net++", size=59.5, scores=(75.5,), source="Zhou et al., 2018",
            model="unetplusplus_cityscapes",
            note="segmentation-models-pytorch has a wider decoder",
        ),
        Entry(
            name="Dilated-ResNet-101", size=52.1, scores=(75.7,), source="Yu et al., 2017",
            model="dilated_resnet101_cityscapes",
        ),
        Entry(
            name="PSPNet", size=65.9, scores=(78.4,), source="Zhao et al., 2017",
            model="pspnet_cityscapes",
            note="segmentation-models-pytorch's mixes what it pooled by a 1x1 convolution, not 3x3",
        ),
        Entry(
            name="DeepLabv3", size=58.0, scores=(78.5,), source="Chen et al., 2017",
            model="deeplabv3_cityscapes",
        ),
        Entry(name="PSANet", size=None, scores=(78.6,), source="Zhao et al., 2018"),
        Entry(
            name="HRNetV2-W48", size=65.9, scores=(81.1,), source=SUN,
            model="hrnet_w48_cityscapes",
        ),
        Entry(
            name="MDEQ-large", size=53.0, scores=(77.8,), source=OWN,
            model="mdeq_cityscapes_large", recipe="cityscapes-large --init RUN",
        ),
        Entry(
            name="MDEQ-XL", size=70.9, scores=(80.3,), source=OWN, model="mdeq_cityscapes_xl",
            recipe="cityscapes-xl --init RUN",
            note="70.9 M is about the residual blocks alone, at the released code's expansion of 6 "
            "in place of the paper's 5",
        ),
    ),
)  # fmt: skip

TABLES: Mapping[str, Table] = MappingProxyType(
    {"cifar10": CIFAR10, "imagenet": IMAGENET, "cityscapes": CITYSCAPES}
)
