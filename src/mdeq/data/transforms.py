"""From a stored image to what the model sees, by torchvision's v2 transforms."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torchvision.transforms import v2

Colour = tuple[float, float, float]

# The usual statistics of natural images, of the ImageNet training set.
IMAGENET_MEAN: Colour = (0.485, 0.456, 0.406)
IMAGENET_STD: Colour = (0.229, 0.224, 0.225)


def normalised(steps: Sequence[v2.Transform], mean: Colour, std: Colour) -> v2.Compose:
    """The steps, then floats with about zero mean and unit deviation."""
    return v2.Compose(
        [*steps, v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean=mean, std=std)]
    )


def visible(image: Tensor, mean: Colour, std: Colour) -> Tensor:
    """Undo the normalisation: (3, H, W) in 0..1, for a picture."""
    scale = image.new_tensor(std)[:, None, None]
    return (image * scale + image.new_tensor(mean)[:, None, None]).clamp(0, 1)


def shifted_and_flipped(size: int) -> list[v2.Transform]:
    """The usual augmentation of small images: a crop after padding by an eighth, and a flip."""
    return [v2.RandomCrop(size, padding=size // 8), v2.RandomHorizontalFlip()]


def cropped_and_flipped(size: int) -> list[v2.Transform]:
    """The usual augmentation of photographs: a random part of the image, and a flip."""
    return [v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()]


def centred(size: int) -> list[v2.Transform]:
    """The middle of the image: the shorter side 8/7 of `size`, then a crop, as with ImageNet."""
    return [v2.Resize(round(size * 8 / 7), antialias=True), v2.CenterCrop(size)]
