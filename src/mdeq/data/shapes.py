"""Shapes: a dataset without files, for both tasks. Every image is drawn when it is asked for."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

from mdeq.data.colours import Channels, Colour
from mdeq.data.drawing import KINDS, draw
from mdeq.data.source import SPLITS, Sample, Samples, Split, SquareSource
from mdeq.solvers import check_count

COLOURS: tuple[Colour, ...] = (
    (31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (148, 103, 189),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Shapes(SquareSource):
    """Coloured shapes on textured ground, with noise and occlusion; a label and a mask.

    Image i of a split is always the same image for the same `seed`, and in no other split.

    Attributes:
        seed: Of the drawing.
        train: Images to train on.
        val: Images to make choices on.
        test: Images for the final figure.
    """

    needs_folder: ClassVar[bool] = False
    mean: ClassVar[Channels] = (0.5, 0.5, 0.5)
    std: ClassVar[Channels] = (0.25, 0.25, 0.25)

    seed: int = 0
    train: int = 20_000
    val: int = 500
    test: int = 2_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size < 8:
            raise ValueError(f"image_size is {self.image_size}; shapes need at least 8 pixels")
        for split in SPLITS:
            check_count(split, getattr(self, split))
        if type(self.seed) is not int or self.seed < 0:
            raise ValueError(f"seed is {self.seed!r}; expected a whole number, at least 0")

    def classes(self, folder: Path | None) -> dict[str, list[str]]:
        """The kinds of shapes; a pixel can also be ground."""
        return {"classification": list(KINDS), "segmentation": ["ground", *KINDS]}

    def colours(self, folder: Path | None) -> list[Colour | None]:
        """Of the kinds; the ground has none."""
        return [None, *COLOURS]

    def samples(self, split: Split, folder: Path | None) -> Samples:
        """The drawings of a split."""
        return Drawings(self.image_size, self.seed, split, getattr(self, split))

    def transforms(self, *, training: bool) -> list[v2.Transform]:
        """Flips, if asked for: drawings vary enough by themselves."""
        flips = [v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()]
        return flips if training and self.augment else []


class Drawings:
    """A sequence of drawings; each depends on the seed, the split and its index alone."""

    def __init__(self, size: int, seed: int, split: Split, count: int) -> None:
        self.size, self.count = size, count
        self.entropy = [seed, SPLITS.index(split)]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        image, kind, mask = draw(self.size, np.random.default_rng([*self.entropy, index]))
        pixels = torch.from_numpy(np.rint(255 * image).astype(np.uint8))
        return {
            "image": tv_tensors.Image(pixels.permute(2, 0, 1)),
            "classification": kind,
            "segmentation": tv_tensors.Mask(torch.from_numpy(mask)),
        }
