"""Small trees of images and masks, in the layouts of the datasets."""

from pathlib import Path

import numpy as np
import yaml
from PIL import Image

PALETTE = np.array([[200, 30, 30], [30, 200, 30], [30, 30, 200]], np.uint8)


def blocks(seed: int, size: tuple[int, int], classes: int = 3) -> np.ndarray:
    """A mask of a few large blocks."""
    rng = np.random.default_rng(seed)
    small = rng.integers(classes, size=(3, 4), dtype=np.uint8)
    rows, columns = (np.arange(n) * m // n for n, m in zip(size, small.shape, strict=True))
    return small[rows][:, columns]


def write_pair(image: Path, mask: Path, classes: np.ndarray, numbers: np.ndarray) -> None:
    """An image whose colour is that of the class, and its mask in numbers."""
    for file in (image, mask):
        file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(PALETTE[classes % 3]).save(image)
    Image.fromarray(numbers.astype(np.uint8)).save(mask)


def write_camvid(root: Path, counts: dict[str, int], size: tuple[int, int] = (24, 32)) -> None:
    """CamVid with so many images of every drive: {"train/0001TP": 3, "val/0016E5": 2}."""
    for place, count in counts.items():
        split, drive = place.split("/")
        for k in range(count):
            name = f"{drive}_{k:05}"
            classes = blocks(k, size)
            numbers = classes.copy()
            numbers[0] = 11  # void
            write_pair(
                root / split / f"{name}.png",
                root / f"{split}annot" / f"{name}.png",
                classes,
                numbers,
            )


def write_cityscapes(root: Path, counts: dict[str, int], size: tuple[int, int] = (32, 64)) -> None:
    """Cityscapes with so many images of every city: {"train/aachen": 2}."""
    ids = np.array([7, 8, 11])  # road, sidewalk, building
    for place, count in counts.items():
        split, city = place.split("/")
        for k in range(count):
            name = f"{city}_{k:06}_000019"
            classes = blocks(k, size)
            numbers = ids[classes]
            numbers[0], numbers[1] = 0, 255  # unlabelled; a licence plate
            write_pair(
                root / "leftImg8bit" / split / city / f"{name}_leftImg8bit.png",
                root / "gtFine" / split / city / f"{name}_gtFine_labelIds.png",
                classes,
                numbers,
            )


def write_own(root: Path, *, in_colours: bool, count: int = 4) -> None:
    """A dataset of one's own: three classes, in numbers or in colours; row 0 is ignored."""
    description = {
        "classes": {name: PALETTE[k].tolist() for k, name in enumerate(("a", "b", "c"))},
        "ignore": [9, [0, 0, 0]],
    }
    for split in ("train", "val"):
        for k in range(count):
            classes = blocks(k, (24, 32))
            numbers = classes.copy()
            numbers[0] = 9
            image, mask = (root / kind / split / f"{k}.png" for kind in ("images", "masks"))
            write_pair(image, mask, classes, numbers)
            if in_colours:
                colours = PALETTE[classes]
                colours[0] = 0
                Image.fromarray(colours).save(mask)
    (root / "dataset.yaml").write_text(yaml.safe_dump(description))
