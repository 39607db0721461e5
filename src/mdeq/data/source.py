"""What every dataset offers, whatever it is made of."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, get_args

import torch
from torch import Tensor
from torchvision.transforms import v2

from mdeq.data.colours import Channels, Colour
from mdeq.data.errors import DataError
from mdeq.data.transforms import IMAGENET_MEAN, IMAGENET_STD
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
        augment: Whether training images are varied at random.
    """

    needs_folder: ClassVar[bool] = True
    mean: ClassVar[Channels] = IMAGENET_MEAN
    std: ClassVar[Channels] = IMAGENET_STD

    augment: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.augment, bool):
            raise ValueError(f"augment is {self.augment!r}; expected true or false")

    @abstractmethod
    def classes(self, folder: Path | None) -> dict[str, list[str]]:
        """The tasks that the data have labels for, and the names of their classes."""

    @abstractmethod
    def samples(self, split: Split, folder: Path | None) -> Samples | None:
        """The samples of a split, or None where there is no such split."""

    @abstractmethod
    def transforms(self, *, training: bool) -> list[v2.Transform]:
        """What happens to a sample, in bytes, before the model sees it."""

    @abstractmethod
    def fit(self, picture: Tensor, *, segmenting: bool) -> Tensor:
        """A picture of any size and origin, in bytes, at the size that the model knows."""

    def colours(self, folder: Path | None) -> list[Colour | None]:
        """Of the classes of a pixel in pictures; None leaves a pixel as it is."""
        return []

    def normalise(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """From bytes to what the model sees: about zero mean and unit deviation."""
        mean = torch.tensor(self.mean, dtype=dtype, device=images.device)[:, None, None]
        std = torch.tensor(self.std, dtype=dtype, device=images.device)[:, None, None]
        return (images.to(dtype) / 255 - mean) / std

    def checked_folder(self, folder: Path | None, inside: str) -> Path:
        """The folder of the data, or an error that says what it should hold."""
        if folder is None:
            raise DataError(f"this dataset needs --data DIR, the folder that holds {inside}")
        if not folder.is_dir():
            raise DataError(f"there is no data folder {folder}; expected one that holds {inside}")
        return folder


@dataclass(frozen=True, kw_only=True)
class SquareSource(Source):
    """A dataset of square images.

    Attributes:
        image_size: Height and width that the model is trained on.
    """

    image_size: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("image_size", self.image_size)

    def fit(self, picture: Tensor, *, segmenting: bool) -> Tensor:
        """A model that segments sees the whole picture, others the middle of it."""
        fitted: Tensor = v2.functional.resize(picture, [self.image_size], antialias=True)
        if not segmenting:
            fitted = v2.functional.center_crop(fitted, [self.image_size])
        return fitted
