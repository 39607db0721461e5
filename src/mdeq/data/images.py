"""Images from files: whatever they are stored as, three channels come out, or the file's name."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import ExifTags, Image, ImageOps
from torch import Tensor

from mdeq.data.errors import DataError

SUFFIXES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def read_image(file: str | Path) -> Tensor:
    """An image file as a tensor (3, H, W) of bytes, upright, transparency laid on white."""
    with opened(file) as stored:
        image = _to_rgb(ImageOps.exif_transpose(stored))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def image_size(file: str | Path) -> tuple[int, int]:
    """Height and width that `read_image` finds, from the head of the file alone."""
    with opened(file) as stored:
        lying = stored.getexif().get(ExifTags.Base.Orientation, 1) > 4
        width, height = stored.size
    return (width, height) if lying else (height, width)


@contextmanager
def opened(file: str | Path) -> Iterator[Image.Image]:
    """An image file, to be decoded inside; what is wrong with it raises an error with its name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata; what cannot be decoded still raises
            with Image.open(file) as stored:
                yield stored
    except Image.DecompressionBombError as error:
        raise DataError(f"{file} is too large to be opened safely: {error}") from None
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for broken files
        if not Path(file).exists():
            raise DataError(f"there is no file {file}") from None
        reason = str(error).replace(f" {str(file)!r}", "")
        raise DataError(
            f"{file} cannot be read as an image ({reason}); replace or remove it"
        ) from None


def write_image(file: Path, pixels: Tensor) -> None:
    """The inverse of `read_image`."""
    Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(file)


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits a pixel, of which RGB keeps the upper 8
        high = np.asarray(image).astype(np.int64) >> 8
        image = Image.fromarray(high.clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        ground = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(ground, image)
    return image.convert("RGB")
