"""Scenes: images whose every pixel has a class. CamVid, and your own pairs of folders."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import yaml
from torch import Tensor
from torchvision.transforms import v2

from mdeq.data.colours import Colour
from mdeq.data.errors import DataError
from mdeq.data.images import SUFFIXES
from mdeq.data.masks import Coding, Pairs
from mdeq.data.source import Samples, Source, Split
from mdeq.data.transforms import cropped, scaled_cropped_and_flipped
from mdeq.solvers import check_count, check_number


@dataclass(frozen=True, kw_only=True)
class Scenes(Source):
    """What the datasets for segmentation have in common. Evaluation is at the stored size.

    Attributes:
        crop: Height and width of what is cut out for training.
        scale: The image is first made smaller or larger by a random factor between these.
        colour: How much brightness, contrast and saturation are varied, 0 to 1.
        shorter_side: What `mdeq predict` brings pictures to; null leaves them as they are.
    """

    augment: bool = True
    crop: tuple[int, int] = (360, 480)
    scale: tuple[float, float] = (0.5, 2.1)
    colour: float = 0.0
    shorter_side: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("crop", "scale"):  # lists, as they come from a file
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)) or len(value) != 2:
                raise ValueError(f"{name} is {value!r}; expected two numbers")
            object.__setattr__(self, name, tuple(value))
        for side in self.crop:
            check_count("a side of crop", side)
        for factor in self.scale:
            check_number("a factor in scale", factor, above=0)
        if self.scale[0] > self.scale[1]:
            raise ValueError(f"scale is {self.scale}; expected the smaller factor first")
        check_number("colour", self.colour, least=0, most=1)
        if self.shorter_side is not None:
            check_count("shorter_side", self.shorter_side)

    @abstractmethod
    def coding(self, folder: Path | None) -> Coding:
        """The classes, and how masks are stored."""

    @abstractmethod
    def pairs(self, split: Split, folder: Path | None) -> list[tuple[Path, Path]] | None:
        """The files of a split: image and mask."""

    def classes(self, folder: Path | None) -> dict[str, list[str]]:
        """Of a pixel."""
        return {"segmentation": list(self.coding(folder).names)}

    def colours(self, folder: Path | None) -> list[Colour | None]:
        """Of the classes."""
        return list(self.coding(folder).colours)

    def samples(self, split: Split, folder: Path | None) -> Samples | None:
        """The images and masks of a split."""
        files = self.pairs(split, folder)
        return None if files is None else Pairs(files, self.coding(folder))

    def transforms(self, *, training: bool) -> list[v2.Transform]:
        """A random part at a random size in training, the whole otherwise."""
        if not training:
            return []
        if not self.augment:
            return [cropped(self.crop, fill=self.mean)]
        jitter = [v2.ColorJitter(*[self.colour] * 3)] if self.colour else []
        return [*scaled_cropped_and_flipped(self.crop, self.scale, fill=self.mean), *jitter]

    def fit(self, picture: Tensor, *, segmenting: bool) -> Tensor:
        """The whole picture, brought to the shorter side that the model knows."""
        if self.shorter_side is None:
            return picture
        fitted: Tensor = v2.functional.resize(picture, [self.shorter_side], antialias=True)
        return fitted


@dataclass(frozen=True, kw_only=True)
class PairedFolders(Scenes):
    """Your own images and masks, described by a dataset.yaml beside them.

        images: images/{split}      # folders of images, for train, val and test
        masks: masks/{split}        # and of their masks, of the same names; without {split} in
                                    # both all are for training, but for those of `holdout`
        classes:                    # in the order of their numbers in the masks
          road: [128, 64, 128]      # colour: in pictures, and in masks stored in colours
          sky: [128, 128, 128]
        ignore: [255]               # numbers or colours of pixels that belong to no class

    Attributes:
        holdout: Training images whose names begin like this are kept out of training; they
            become the validation split.
    """

    description: ClassVar[str | None] = None  # in place of a dataset.yaml

    holdout: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.holdout is not None and (not isinstance(self.holdout, str) or not self.holdout):
            raise ValueError(
                f"holdout is {self.holdout!r}; expected how names begin (a number in quotes: "
                "'\"0001\"'), or null"
            )

    def coding(self, folder: Path | None) -> Coding:
        """As it is described."""
        return self._description(folder).coding

    def pairs(self, split: Split, folder: Path | None) -> list[tuple[Path, Path]] | None:
        """Images and masks of the same names."""
        description = self._description(folder)
        layout = f"{description.images} and {description.masks}".replace("{split}", "train")
        root = self.checked_folder(folder, layout)
        stored: Split = "train" if split == "val" and self.holdout else split
        images = root / description.images.replace("{split}", stored)
        masks = root / description.masks.replace("{split}", stored)
        if stored != "train" and not (description.has_splits and images.is_dir()):
            return None
        if stored == "test" and not masks.is_dir():  # pictures without an answer
            return None
        found = paired(images, masks)
        if self.holdout is None or split == "test":
            return found
        kept = [pair for pair in found if pair[0].name.startswith(self.holdout)]
        rest = [pair for pair in found if not pair[0].name.startswith(self.holdout)]
        if not kept or not rest:
            raise DataError(
                f"{len(kept)} of the {len(found)} images in {images} have names that begin with "
                f"{self.holdout!r}; expected some of them, and not all"
            )
        return kept if split == "val" else rest

    def _description(self, folder: Path | None) -> "Description":
        if self.description is not None:
            return Description.of(yaml.safe_load(self.description), type(self).__name__)
        file = self.checked_folder(folder, "dataset.yaml") / "dataset.yaml"
        if not file.is_file():
            raise DataError(f"there is no {file}; expected one that names classes and colours")
        try:
            return Description.of(yaml.safe_load(file.read_text()), str(file))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise DataError(f"{file} is not YAML: {' '.join(str(error).split())}") from None


@dataclass(frozen=True, kw_only=True)
class CamVid(PairedFolders):
    """CamVid as SegNet's authors cut it: train/ and trainannot/, likewise val and test."""

    description: ClassVar[str | None] = """
        images: "{split}"
        masks: "{split}annot"
        classes:
          sky: [128, 128, 128]
          building: [128, 0, 0]
          pole: [192, 192, 128]
          road: [128, 64, 128]
          pavement: [60, 40, 222]
          tree: [128, 128, 0]
          sign-symbol: [192, 128, 128]
          fence: [64, 64, 128]
          car: [64, 0, 128]
          pedestrian: [64, 64, 0]
          bicyclist: [0, 128, 192]
        ignore: [11]
        """

    shorter_side: int | None = 360


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a dataset.yaml says.

    Attributes:
        coding: Of the masks.
        images: The folder of images, with {split} in it if every split has one.
        masks: The folder of masks.
    """

    coding: Coding
    images: str = "images/{split}"
    masks: str = "masks/{split}"

    @property
    def has_splits(self) -> bool:
        """Whether every split has a folder; otherwise all images are for training."""
        return "{split}" in self.images

    @classmethod
    def of(cls, written: object, source: str) -> Self:
        """The description that was read from the `source`."""
        if not isinstance(written, Mapping):
            raise DataError(f"{source} holds no description; expected fields such as classes")
        known = ("images", "masks", "classes", "ignore")
        for name in written:
            if name not in known:
                raise DataError(f"{source} has a field {name!r}; expected {', '.join(known)}")
        folders = {name: written[name] for name in ("images", "masks") if name in written}
        for name, pattern in folders.items():
            if not isinstance(pattern, str):
                raise DataError(f"{source}: {name} is {pattern!r}; expected a folder")
        patterns = [folders.get("images", cls.images), folders.get("masks", cls.masks)]
        if len({"{split}" in pattern for pattern in patterns}) > 1:
            raise DataError(
                f"{source}: one of {' and '.join(patterns)} has {{split}} in it, the other does "
                "not; expected both or none"
            )
        classes, ignore = written.get("classes"), written.get("ignore", [])
        if not isinstance(classes, Mapping):
            raise DataError(f"{source}: classes is {classes!r}; expected names, each with a colour")
        if not 2 <= len(classes) < 255:
            raise DataError(f"{source} names {len(classes)} classes; expected 2 to 254")
        if not isinstance(ignore, list):
            raise DataError(f"{source}: ignore is {ignore!r}; expected numbers or colours")
        coding = Coding(
            names=tuple(str(name) for name in classes),
            colours=tuple(_colour(value, name, source) for name, value in classes.items()),
            numbers=tuple(range(len(classes))),
            ignored=tuple(
                code if type(code) is int else _colour(code, "what is ignored", source)
                for code in ignore
            ),
        )
        for codes in ((*coding.numbers, *coding.ignored), (*coding.colours, *coding.ignored)):
            twice = next((code for code in codes if codes.count(code) > 1), None)
            if twice is not None:
                raise DataError(
                    f"{source}: {twice} stands twice among the classes and what is ignored; "
                    "expected a number and a colour of its own for each"
                )
        return cls(coding=coding, **folders)


def _colour(value: Any, of: object, source: str) -> Colour:
    whole = isinstance(value, list) and all(type(part) is int for part in value)
    if not whole or len(value) != 3 or not all(0 <= part <= 255 for part in value):
        raise DataError(f"{source}: the colour of {of} is {value!r}; expected [R, G, B], 0 to 255")
    return value[0], value[1], value[2]


def paired(images: Path, masks: Path) -> list[tuple[Path, Path]]:
    """The images of a folder, each with the mask of the same name; one without the other raises."""
    found: list[dict[str, Path]] = []
    for folder in (images, masks):
        if not folder.is_dir():
            raise DataError(f"there is no folder {folder}; expected images and masks in pairs")
        files = [file for file in sorted(folder.iterdir()) if file.suffix.lower() in SUFFIXES]
        named = {file.stem: file for file in files}
        for file in files:
            if named[file.stem] is not file:
                raise DataError(
                    f"{file} and {named[file.stem].name} have the same name; expected one of them"
                )
        found.append(named)
    by_name, masks_by_name = found
    if not by_name:
        raise DataError(f"{images} has no images; expected {', '.join(SUFFIXES)} files")
    for name, file in by_name.items():
        if name not in masks_by_name:
            raise DataError(f"{file} has no mask; expected {masks / name}.png")
    for name, file in masks_by_name.items():
        if name not in by_name:
            raise DataError(f"{file} is a mask without an image; expected {images / name}.*")
    return [(file, masks_by_name[name]) for name, file in by_name.items()]
