"""CIFAR-10 as torchvision reads and downloads it."""

import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torchvision import datasets, tv_tensors
from torchvision.datasets.utils import check_integrity
from torchvision.transforms import v2

from mdeq.data.colours import Channels
from mdeq.data.errors import DataError
from mdeq.data.source import Sample, Samples, Split, SquareSource
from mdeq.data.transforms import shifted_and_flipped

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CIFAR10(SquareSource):
    """CIFAR-10, from a folder that holds cifar-10-batches-py.

    Attributes:
        holdout: The last so many training images become the validation split; with 0 there
            is none, and training sees all 50,000.
        download: Whether to fetch the data into the folder first, where they are missing.
    """

    mean: ClassVar[Channels] = (0.4914, 0.4822, 0.4465)
    std: ClassVar[Channels] = (0.2470, 0.2435, 0.2616)

    holdout: int = 0
    download: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.holdout) is not int or not 0 <= self.holdout < 50_000:
            raise ValueError(f"holdout is {self.holdout!r}; expected 0 to 49,999 images")

    def classes(self, folder: Path | None) -> dict[str, list[str]]:
        """Ten kinds of things."""
        return {"classification": list(CLASSES)}

    def samples(self, split: Split, folder: Path | None) -> Samples | None:
        """The images of a split."""
        if split == "val" and not self.holdout:
            return None
        if self.download and folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        root = self.checked_folder(folder, "cifar-10-batches-py")
        stored = _read(root, train=split != "test", download=self.download)
        border = len(stored.targets) - self.holdout
        return {
            "train": Pictures(stored, range(border)),
            "val": Pictures(stored, range(border, len(stored.targets))),
            "test": Pictures(stored, range(len(stored.targets))),
        }[split]

    def transforms(self, *, training: bool) -> list[v2.Transform]:
        """The paper's augmentation shifts and flips."""
        size = self.image_size
        steps: list[v2.Transform] = [] if size == 32 else [v2.Resize((size, size), antialias=True)]
        if training and self.augment:
            steps += shifted_and_flipped(size)
        return steps


class Pictures:
    """Some of the stored images."""

    def __init__(self, stored: datasets.CIFAR10, indices: range) -> None:
        self.images = torch.from_numpy(stored.data)
        self.labels = stored.targets
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Sample:
        stored = self.indices[index]
        image = tv_tensors.Image(self.images[stored].permute(2, 0, 1))
        return {"image": image, "classification": self.labels[stored]}


class _Stored(datasets.CIFAR10):  # type: ignore[misc]
    """torchvision's reader, content with copies of the data whose files have other checksums."""

    def _check_integrity(self) -> bool:
        batches = Path(self.root) / self.base_folder
        sums = {batches / name: md5 for name, md5 in self.train_list + self.test_list}
        if not all(file.is_file() for file in sums):
            return False
        if not all(check_integrity(file, md5) for file, md5 in sums.items()):
            warnings.warn(
                f"the files in {batches} are not the original ones (their MD5 sums differ); "
                "they are used all the same",
                stacklevel=1,
            )
        return True

    def _load_meta(self) -> None:
        self.classes = list(CLASSES)


def _read(root: Path, **options: Any) -> datasets.CIFAR10:
    batches = root / _Stored.base_folder
    try:
        stored = _Stored(root, **options)
    except RuntimeError:
        raise DataError(
            f"there is no CIFAR-10 in {root}; expected {batches} with data_batch_1 to 5 and "
            "test_batch; mdeq train fetches it with --dataset.download true"
        ) from None
    except OSError as error:  # includes every failure to download
        raise DataError(f"CIFAR-10 cannot be read or fetched into {root}: {error}") from None
    except (EOFError, pickle.UnpicklingError, KeyError, ValueError) as error:
        raise DataError(f"a file in {batches} is damaged ({error!r}); copy them again") from None
    if len(stored.data) != len(stored.targets):
        raise DataError(f"the files in {batches} hold more images than labels, or fewer")
    return stored
