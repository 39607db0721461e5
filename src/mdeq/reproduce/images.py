"""Images to solve for: from the folders that were given, or the few that ship."""

from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from mdeq.data import Source, create_source, open_split, read_image
from mdeq.engine.pictures import spread
from mdeq.reproduce.setting import Setting

BATCHES = 5
STREET = (288, 384)  # height and width of the parts of a street: models pad to multiples of 32
SHEET = 32  # height and width of the images on the sheet of CIFAR-10


def picture(name: str) -> Path:
    """A picture of the package."""
    return Path(str(files("mdeq") / "pictures" / name))


def cifar10_batches(setting: Setting) -> tuple[list[Tensor], str]:
    """Normalised test images, and what they are."""
    source = create_source(name="cifar10")
    if setting.cifar10 is None:
        sheet = read_image(picture("cifar10.png"))
        tiles = sheet.unfold(1, SHEET, SHEET).unfold(2, SHEET, SHEET)
        images = tiles.permute(1, 2, 0, 3, 4).flatten(0, 1)
        words = "test images of CIFAR-10 that ship"
    else:
        images = _read(source, setting.cifar10, "test", BATCHES * setting.pick(8, 32))
        words = "test images of CIFAR-10"
    return _batches(source, images), words


def street_batches(setting: Setting, height: int, width: int) -> tuple[list[Tensor], str]:
    """Normalised parts of street scenes, brought to a size, and what they are."""
    source = create_source(name="camvid")
    count = BATCHES * setting.pick(1, 4)
    frames = _read(source, street_folder(setting), "val", count)
    rounds = -(-count // len(frames))
    down, right = frames.shape[2] - STREET[0], frames.shape[3] - STREET[1]
    parts = []
    for k in range(count):  # every frame has its turn before one comes again, in another part
        turn, frame = divmod(k, len(frames))
        y, x = turn * down // rounds, turn * right // rounds
        parts.append(frames[frame, :, y : y + STREET[0], x : x + STREET[1]])
    batches = [
        interpolate(batch, (height, width), mode="area").contiguous(
            memory_format=torch.channels_last
        )
        for batch in _batches(source, torch.stack(parts))
    ]
    where = "CamVid's val split" if setting.camvid else "one street (parts overlap)"
    return batches, f"part{'s' if len(batches[0]) > 1 else ''} of {where}"


def street_folder(setting: Setting) -> str:
    """CamVid, or the street that ships, in the same order."""
    return setting.camvid or str(picture("camvid"))


def _read(source: Source, folder: str, split: str, count: int) -> Tensor:
    """Images spread over a split."""
    examples = open_split(source, split, folder)  # type: ignore[arg-type]
    assert examples is not None
    samples = [examples.samples[index] for index in spread(len(examples), count)]
    return torch.stack([sample["image"] for sample in samples])


def _batches(source: Source, images: Tensor) -> list[Tensor]:
    normalised = source.normalise(images, torch.float32)
    return list(normalised.contiguous(memory_format=torch.channels_last).chunk(BATCHES))
