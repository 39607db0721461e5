"""Images and the class of every pixel of them, as files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchvision import tv_tensors

from mdeq.data.colours import Colour
from mdeq.data.errors import DataError
from mdeq.data.images import image_size, opened, read_image
from mdeq.data.source import Sample
from mdeq.data.transforms import IGNORED


@dataclass(frozen=True, kw_only=True)
class Coding:
    """How mask files say which class a pixel has.

    Attributes:
        names: Of the classes.
        colours: Of the classes: in pictures, and in masks that are stored in colours.
        numbers: Of the classes, in masks that are stored in numbers.
        ignored: Numbers and colours of pixels that belong to no class.
    """

    names: tuple[str, ...]
    colours: tuple[Colour, ...]
    numbers: tuple[int, ...]
    ignored: tuple[int | Colour, ...] = ()

    def decode(self, stored: npt.NDArray[Any], file: Path) -> Tensor:
        """The classes (H, W) of a mask as it is stored: in numbers (H, W), in colours (H, W, 3)."""
        in_colours = stored.ndim == 3
        present, places = np.unique(
            _packed(stored) if in_colours else stored.astype(np.int64), return_inverse=True
        )
        classes = self._by_colour() if in_colours else self._by_number()
        for value in present.tolist():
            if value not in classes:
                what = f"the colour {_unpacked(value)}" if in_colours else f"the value {value}"
                raise DataError(
                    f"{file} holds {what}, which is none of the {len(self.names)} classes and not "
                    "ignored; mend the mask, or the description of the classes"
                )
        table = np.array([classes[value] for value in present.tolist()], np.uint8)
        return torch.from_numpy(table[places.reshape(stored.shape[:2])])

    def knows(self, colours: npt.NDArray[Any]) -> bool:
        """Whether all colours (H, W, 3) are of classes or ignored."""
        return bool(np.isin(_packed(colours), list(self._by_colour())).all())

    def _by_number(self) -> dict[int, int]:
        ignored = {code: IGNORED for code in self.ignored if isinstance(code, int)}
        return {number: k for k, number in enumerate(self.numbers)} | ignored

    def _by_colour(self) -> dict[int, int]:
        ignored = {_packed_one(code): IGNORED for code in self.ignored if isinstance(code, tuple)}
        return {_packed_one(colour): k for k, colour in enumerate(self.colours)} | ignored


def _packed(colours: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """One number for every colour (..., 3)."""
    return np.asarray(colours.astype(np.int64) @ np.array([65536, 256, 1]))


def _packed_one(colour: Colour) -> int:
    return int(_packed(np.array(colour)))


def _unpacked(number: int) -> Colour:
    return number >> 16, number >> 8 & 255, number & 255


def read_mask(file: Path, coding: Coding) -> Tensor:
    """A mask file as a tensor (H, W) of classes, IGNORED where there is none.

    A file with a palette holds colours if all of those in it are of classes or ignored, and
    numbers otherwise: programs that save colours with a palette number them as they like.
    """
    with opened(file) as image:
        colours = None
        if image.mode not in ("1", "L", "I", "I;16"):
            colours = np.asarray(image.convert("RGB"))
        if image.mode == "P" and colours is not None and not coding.knows(colours):
            colours = None
        stored = np.asarray(image) if colours is None else colours
    return coding.decode(stored, file)


class Pairs:
    """Image files, each with its mask."""

    def __init__(self, files: Sequence[tuple[Path, Path]], coding: Coding) -> None:
        self.files, self.coding = files, coding

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        image_file, mask_file = self.files[index]
        image, mask = read_image(image_file), read_mask(mask_file, self.coding)
        self._check_sizes(index, (image.shape[1], image.shape[2]), mask)
        return {"image": tv_tensors.Image(image), "segmentation": tv_tensors.Mask(mask)}

    def check(self, index: int) -> None:
        """Raise what reading a sample would raise, without decoding its image."""
        image_file, mask_file = self.files[index]
        self._check_sizes(index, image_size(image_file), read_mask(mask_file, self.coding))

    def _check_sizes(self, index: int, size: tuple[int, int], mask: Tensor) -> None:
        if size != mask.shape:
            image_file, mask_file = self.files[index]
            sizes = [f"{width}x{height}" for height, width in (size, mask.shape)]
            raise DataError(
                f"{image_file} is {sizes[0]} pixels, its mask {mask_file} {sizes[1]}; "
                "expected the same size"
            )
