"""Images in folders, one folder a class: your own, or ImageNet."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.datasets.folder import make_dataset
from torchvision.transforms import v2

from mdeq.data.errors import DataError
from mdeq.data.images import SUFFIXES, read_image
from mdeq.data.source import Sample, Samples, Split, SquareSource
from mdeq.data.transforms import centred, cropped_and_flipped

LAYOUT = "train/CLASS/*.jpg, and val/ and test/ likewise where you have them"


@dataclass(frozen=True, kw_only=True)
class Folder(SquareSource):
    """A folder with train/CLASS/ files, and val/CLASS/ and test/CLASS/ where there are some.

    Attributes:
        holdout: Where there is no val folder, so many training images, drawn evenly at random,
            are kept out of training and become the validation split.
    """

    image_size: int = 224
    augment: bool = True
    holdout: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.holdout) is not int or self.holdout < 0:
            raise ValueError(f"holdout is {self.holdout!r}; expected a number of images")

    def classes(self, folder: Path | None) -> dict[str, list[str]]:
        """The names of the folders in train."""
        root = self.checked_folder(folder, LAYOUT) / "train"
        names = _folders(root) if root.is_dir() else []
        if len(names) < 2:
            raise DataError(f"{root} holds {len(names)} folders, one a class; expected {LAYOUT}")
        return {"classification": names}

    def samples(self, split: Split, folder: Path | None) -> Samples | None:
        """The files of a split."""
        names = self.classes(folder)["classification"]
        root = self.checked_folder(folder, LAYOUT)
        own = root / split
        if own.is_dir() and not (split == "train" and self._holds_out(root)):
            return Files(_listed(own, names))
        if split == "test" or not self._holds_out(root):
            return None
        files = _listed(root / "train", names)
        if self.holdout >= len(files):
            raise DataError(
                f"holdout is {self.holdout}, but {root / 'train'} has {len(files)} images"
            )
        order = torch.randperm(len(files), generator=torch.Generator().manual_seed(0)).tolist()
        chosen = order[: self.holdout] if split == "val" else order[self.holdout :]
        return Files([files[k] for k in sorted(chosen)])

    def transforms(self, *, training: bool) -> list[v2.Transform]:
        """A random part of the image in training, its middle otherwise."""
        varied = training and self.augment
        return cropped_and_flipped(self.image_size) if varied else centred(self.image_size)

    def fit(self, picture: Tensor, *, segmenting: bool) -> Tensor:
        """As for evaluation."""
        fitted: Tensor = v2.Compose(centred(self.image_size))(picture)
        return fitted

    def _holds_out(self, root: Path) -> bool:
        return self.holdout > 0 and not (root / "val").is_dir()


@dataclass(frozen=True, kw_only=True)
class ImageNet(Folder):
    """ImageNet as train/nXXXXXXXX/ and val/nXXXXXXXX/; its val folder is what results are of."""

    def classes(self, folder: Path | None) -> dict[str, list[str]]:
        """The 1000 synsets."""
        classes = super().classes(folder)
        count = len(classes["classification"])
        if count != 1000:
            raise DataError(
                f"{folder}/train has {count} classes, ImageNet has 1000; "
                "for other images, say --dataset.name folder"
            )
        return classes

    def samples(self, split: Split, folder: Path | None) -> Samples | None:
        """The files of a split; its labelled val images are the test split, as in the paper."""
        if split == "test":
            names = self.classes(folder)["classification"]
            return Files(_listed(self.checked_folder(folder, LAYOUT) / "val", names))
        return None if split == "val" else super().samples(split, folder)


class Files:
    """Image files and their labels."""

    def __init__(self, files: list[tuple[str, int]]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        file, label = self.files[index]
        return {"image": tv_tensors.Image(read_image(file)), "classification": label}


def _folders(folder: Path) -> list[str]:
    """The folders in a folder, but for those that programs hide there."""
    return sorted(e.name for e in folder.iterdir() if e.is_dir() and not e.name.startswith("."))


def _listed(folder: Path, names: list[str]) -> list[tuple[str, int]]:
    """Every image under the folder of every class, which are those of the training split."""
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}; expected {LAYOUT}")
    strange = sorted(set(_folders(folder)) - set(names))
    if strange:
        raise DataError(f"{folder} has {strange[0]}/, which is no class of the training split")
    indices = {name: k for k, name in enumerate(names)}
    files = make_dataset(folder, indices, extensions=SUFFIXES, allow_empty=True)
    if not files:
        raise DataError(f"{folder} has no images; expected {', '.join(SUFFIXES)} files")
    return list(files)
