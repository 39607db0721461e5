"""Images and their labels: generated, from CIFAR-10, from ImageNet, or from your folders."""

from mdeq.data.colours import Colour
from mdeq.data.errors import DataError
from mdeq.data.images import SUFFIXES, read_image, write_image
from mdeq.data.loading import Batch, Examples, Once, Order, batches, derived_seed, open_split
from mdeq.data.masks import Pairs, read_mask
from mdeq.data.registry import SOURCES, create_source
from mdeq.data.scenes import Scenes
from mdeq.data.source import SPLITS, Source, Split
from mdeq.data.transforms import IGNORED

__all__ = [
    "IGNORED",
    "SOURCES",
    "SPLITS",
    "SUFFIXES",
    "Batch",
    "Colour",
    "DataError",
    "Examples",
    "Once",
    "Order",
    "Pairs",
    "Scenes",
    "Source",
    "Split",
    "batches",
    "create_source",
    "derived_seed",
    "open_split",
    "read_image",
    "read_mask",
    "write_image",
]
