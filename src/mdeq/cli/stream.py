"""`mdeq predict --stream`: the frames of a video, one after the other."""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torchmetrics.classification import MulticlassConfusionMatrix
from tqdm import tqdm

from mdeq.cli.options import create_folder
from mdeq.data import IGNORED, SUFFIXES, DataError, Scenes, read_mask
from mdeq.engine import Bundle, Prediction, stream
from mdeq.engine.pictures import overlay
from mdeq.engine.tasks import segmentation_figures


def predict_stream(
    bundle: Bundle, files: Sequence[str], folder: Path, *, masks: str | None, warm: bool
) -> dict[str, Any]:
    """Answer for every frame, draw it, and say what it took; the figures of all."""
    if "segmentation" not in bundle.classes:
        raise ValueError("--stream is for models that segment; give the images without it")
    truths = None if masks is None else _truths(files, Path(masks))
    create_folder(folder)
    judge = Judge(bundle)
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    for index, prediction in enumerate(
        tqdm(stream(bundle, files, warm=warm), "frames", len(files), leave=False, disable=None)
    ):
        seconds = time.perf_counter() - began
        if truths is not None:
            judge.count(prediction, truths[index])
        _draw(folder / f"{Path(files[index]).stem}.png", prediction, bundle)
        rows.append(
            {
                "file": files[index],
                "steps": prediction.steps,
                "residual": prediction.residual,
                "seconds": seconds,
            }
        )
        began = time.perf_counter()
    figures: dict[str, Any] = {"frames": rows, "warm": warm}
    print(f"{len(rows)} frames -> {folder}")
    steps = [row["steps"] for row in rows[1:] if row["steps"] is not None]
    if steps:
        figures["mean_steps"] = statistics.mean(steps)
        figures["mean_residual"] = statistics.mean(row["residual"] for row in rows[1:])
        start = "the frame before" if warm else "zero"
        print(
            f"from {start}: {figures['mean_steps']:.2f} evaluations of f a frame, residual "
            f"{figures['mean_residual']:.2g} (the first frame: {rows[0]['steps']} and "
            f"{rows[0]['residual']:.2g})"
        )
    if truths is not None:
        figures["segmentation"] = judge.figures()
        print(f"mIoU {100 * figures['segmentation']['miou']:.2f} %")
    return figures


class Judge:
    """Compares predicted masks with true ones."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.names = bundle.classes["segmentation"]
        self.confusion = MulticlassConfusionMatrix(len(self.names), ignore_index=IGNORED)

    def count(self, prediction: Prediction, file: Path) -> None:
        """Compare one frame."""
        part = self.bundle.part("segmentation")
        source = part.source
        if not isinstance(source, Scenes):
            raise ValueError("the data of this model have no masks in files; leave --masks out")
        truth = read_mask(file, source.coding(None if part.data is None else Path(part.data)))
        assert prediction.mask is not None
        if truth.shape != prediction.mask.shape:
            raise DataError(f"{file} is not of the size of its frame; expected the same")
        self.confusion.update(prediction.mask, truth.long())

    def figures(self) -> dict[str, Any]:
        """mIoU and the IoU of every class."""
        return segmentation_figures(self.confusion.compute(), self.names)


def _truths(files: Sequence[str], masks: Path) -> list[Path]:
    if not masks.is_dir():
        raise DataError(f"there is no folder {masks}; expected masks, named like their frames")
    named = {file.stem: file for file in sorted(masks.iterdir()) if file.suffix.lower() in SUFFIXES}
    for frame in files:
        if Path(frame).stem not in named:
            raise DataError(f"the frame {frame} has no mask; expected {masks / Path(frame).stem}.*")
    return [named[Path(frame).stem] for frame in files]


def _draw(file: Path, prediction: Prediction, bundle: Bundle) -> None:
    assert prediction.mask is not None
    painted = overlay(prediction.image, prediction.mask, bundle.colours, strength=0.5)
    Image.fromarray((255 * painted).round().astype(np.uint8)).save(file)
