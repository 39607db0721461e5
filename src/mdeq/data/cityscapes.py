"""Cityscapes in its own layout, by torchvision's reader."""

from dataclasses import dataclass
from pathlib import Path

from torchvision import datasets

from mdeq.data.errors import DataError
from mdeq.data.masks import Coding
from mdeq.data.scenes import Scenes
from mdeq.data.source import Split

LAYOUT = "leftImg8bit/train/CITY/*_leftImg8bit.png and gtFine/train/CITY/*_gtFine_labelIds.png"


@dataclass(frozen=True, kw_only=True)
class Cityscapes(Scenes):
    """Cityscapes: its 19 training classes, everything else ignored.

    There is no test split: its masks are not public, results are those of val.
    """

    crop: tuple[int, int] = (512, 1024)
    shorter_side: int | None = 1024

    def coding(self, folder: Path | None) -> Coding:
        """The 19 classes of 34 numbers; a licence plate is -1, so 255 in a file of bytes."""
        listed = datasets.Cityscapes.classes
        used = [label for label in listed if 0 <= label.train_id < 19]
        return Coding(
            names=tuple(label.name for label in used),
            colours=tuple(label.color for label in used),
            numbers=tuple(label.id for label in used),
            ignored=tuple({label.id % 256 for label in listed if label not in used}),
        )

    def pairs(self, split: Split, folder: Path | None) -> list[tuple[Path, Path]] | None:
        """The images of all cities."""
        if split == "test":
            return None
        root = self.checked_folder(folder, LAYOUT)
        for needed in (root / "leftImg8bit" / split, root / "gtFine" / split):
            if not needed.is_dir():  # torchvision would look for the archives, and unpack them
                raise DataError(f"there is no folder {needed}; expected {LAYOUT}, likewise val")
        stored = datasets.Cityscapes(root, split, mode="fine", target_type="semantic")
        files = [
            (Path(image), Path(mask))
            for image, (mask,) in sorted(zip(stored.images, stored.targets, strict=True))
        ]
        for image, mask in files:
            if not mask.is_file():
                raise DataError(f"{image} has no mask; expected {mask}")
        if not files:
            raise DataError(f"{root / 'leftImg8bit' / split} has no images; expected {LAYOUT}")
        return files
