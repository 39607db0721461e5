"""What every dataset offers, whatever it is made of."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, get_args

from torchvision.transforms import v2

from mdeq.data.errors import DataError
from mdeq.data.transforms import IMAGENET_MEAN, IMAGENET_STD, Colour, normalised
from mdeq.solvers import check_count

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

Sample = dict[str, Any]  # "image": (3, H, W) bytes, and the target of every task under its name


class Samples(Protocol):
    """A fixed number of samples, each made or read when it is asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """A dataset: its fields are what a recipe can say about it.

    Attributes:
        image_size: Height and width that the model is trained on.
        augment: Whether training images are varied at random.
    """

    needs_folder: ClassVar[bool] = True
    mean: ClassVar[Colour] = IMAGENET_MEAN
    std: ClassVar[Colour] = IMAGENET_STD

    image_size: int = 32
    augment: bool = False

    def __post_init__(self) -> None:
        check_count("image_size", self.image_size)
        if not isinstance(self.augment, bool):
            raise ValueError(f"augment is {self.augment!r}; expected true or false")

    @abstractmethod
    def classes(self, folder: Path | None) -> dict[str, list[str]]:
        """The tasks that the data have labels for, and the names of their classes."""

    @abstractmethod
    def samples(self, split: Split, folder: Path | None) -> Samples | None:
        """The samples of a split, or None where there is no such split."""

    @abstractmethod
    def transform(self, *, training: bool) -> v2.Transform:
        """From a sample to what the model sees."""

    def fit(self, *, segmenting: bool) -> v2.Transform:
        """From a picture of any size and origin to what the model sees.

        A model that segments sees the whole picture, others the middle of it.
        """
        steps: list[v2.Transform] = [v2.Resize(self.image_size, antialias=True)]
        if not segmenting:
            steps.append(v2.CenterCrop(self.image_size))
        return normalised(steps, self.mean, self.std)

    def checked_folder(self, folder: Path | None, inside: str) -> Path:
        """The folder of the data, or an error that says what it should hold."""
        if folder is None:
            raise DataError(f"this dataset needs --data DIR, the folder that holds {inside}")
        if not folder.is_dir():
            raise DataError(f"there is no data folder {folder}; expected one that holds {inside}")
        return folder
