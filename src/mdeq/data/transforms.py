"""How images are varied and brought to size, by torchvision's v2 transforms."""

from typing import Any

import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

from mdeq.data.colours import Channels

IGNORED = 255  # in a mask: a pixel of no class

# The usual statistics of natural images, of the ImageNet training set.
IMAGENET_MEAN: Channels = (0.485, 0.456, 0.406)
IMAGENET_STD: Channels = (0.229, 0.224, 0.225)


def shifted_and_flipped(size: int) -> list[v2.Transform]:
    """The usual augmentation of small images: a crop after padding by an eighth, and a flip."""
    return [v2.RandomCrop(size, padding=size // 8), v2.RandomHorizontalFlip()]


def cropped_and_flipped(size: int) -> list[v2.Transform]:
    """The usual augmentation of photographs: a random part of the image, and a flip."""
    return [v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()]


def centred(size: int) -> list[v2.Transform]:
    """The middle of the image: the shorter side 8/7 of `size`, then a crop, as with ImageNet."""
    return [v2.Resize(round(size * 8 / 7), antialias=True), v2.CenterCrop(size)]


class RandomScale(v2.Transform):  # type: ignore[misc]
    """Image and mask larger or smaller by one random factor; a mask keeps to its classes."""

    def __init__(self, least: float, most: float) -> None:
        super().__init__()
        self.least, self.most = least, most

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Draw the factor."""
        factor = self.least + (self.most - self.least) * float(torch.rand(()))
        height, width = v2.functional.get_size(flat_inputs[0])
        return {"size": [max(1, round(factor * height)), max(1, round(factor * width))]}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        """Resize."""
        return self._call_kernel(v2.functional.resize, inpt, size=params["size"], antialias=True)


def scaled_cropped_and_flipped(
    crop: tuple[int, int], scale: tuple[float, float], *, fill: Channels
) -> list[v2.Transform]:
    """The usual augmentation of scenes: a part of the image at a random size, and a flip.

    Where the image is smaller than the part, the rest is of the colour `fill`, and ignored.
    """
    return [
        RandomScale(*scale),
        cropped(crop, fill=fill),
        v2.RandomHorizontalFlip(),
    ]


def cropped(crop: tuple[int, int], *, fill: Channels) -> v2.Transform:
    """A random part of the image, filled up where the image is smaller."""
    around = {
        tv_tensors.Image: tuple(round(255 * part) for part in fill),
        tv_tensors.Mask: IGNORED,
    }
    return v2.RandomCrop(crop, pad_if_needed=True, fill=around)
