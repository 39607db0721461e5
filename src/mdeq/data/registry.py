"""The datasets by name."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from mdeq.data.cifar10 import CIFAR10
from mdeq.data.cityscapes import Cityscapes
from mdeq.data.folder import Folder, ImageNet
from mdeq.data.scenes import CamVid, PairedFolders
from mdeq.data.shapes import Shapes
from mdeq.data.source import Source
from mdeq.solvers import check_choice

SOURCES: Mapping[str, type[Source]] = MappingProxyType(
    {
        "shapes": Shapes,
        "cifar10": CIFAR10,
        "imagenet": ImageNet,
        "folder": Folder,
        "camvid": CamVid,
        "cityscapes": Cityscapes,
        "masks": PairedFolders,
    }
)


def create_source(name: str, **options: Any) -> Source:
    """A dataset by name, with any of its fields; unknown ones are errors."""
    check_choice("dataset", name, SOURCES)
    for option in options:
        check_choice(f"field of dataset {name!r}", option, [f.name for f in fields(SOURCES[name])])
    return SOURCES[name](**options)
