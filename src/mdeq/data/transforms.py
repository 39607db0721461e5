"""How images are varied and brought to size, by torchvision's v2 transforms."""

from torchvision.transforms import v2

Colour = tuple[float, float, float]

# The usual statistics of natural images, of the ImageNet training set.
IMAGENET_MEAN: Colour = (0.485, 0.456, 0.406)
IMAGENET_STD: Colour = (0.229, 0.224, 0.225)


def shifted_and_flipped(size: int) -> list[v2.Transform]:
    """The usual augmentation of small images: a crop after padding by an eighth, and a flip."""
    return [v2.RandomCrop(size, padding=size // 8), v2.RandomHorizontalFlip()]


def cropped_and_flipped(size: int) -> list[v2.Transform]:
    """The usual augmentation of photographs: a random part of the image, and a flip."""
    return [v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip()]


def centred(size: int) -> list[v2.Transform]:
    """The middle of the image: the shorter side 8/7 of `size`, then a crop, as with ImageNet."""
    return [v2.Resize(round(size * 8 / 7), antialias=True), v2.CenterCrop(size)]
