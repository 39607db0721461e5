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
from mdeq.engine.pictures import overlay, save_legend
from mdeq.engine.tasks import segmentation_figures


def predict_stream(
    bundle: Bundle,
    files: Sequence[str],
    folder: Path,
    *,
    masks: str | None,
    data: str | None,
    warm: bool,
) -> dict[str, Any]:
    """Answer for every frame, draw it, and say what it took; the figures of all.

    Args:
        bundle: A model that segments.
        files: The frames.
        folder: Where overlays go.
        masks: The folder of the masks of some of the frames.
        data: Where the data of the model are, if not where training found them.
        warm: Whether a solve starts from the equilibrium before it.
    """
    if "segmentation" not in bundle.classes:
        raise ValueError("--stream is for models that segment; give the images without it")
    truths = {} if masks is None else _truths(files, Path(masks))
    create_folder(folder)
    save_legend(folder / "legend.png", bundle.classes["segmentation"], bundle.colours)
    judge = Judge(bundle, data)
    rows: list[dict[str, Any]] = []
    began = time.perf_counter()
    for index, prediction in enumerate(
        tqdm(stream(bundle, files, warm=warm), "frames", len(files), leave=False, disable=None)
    ):
        seconds = time.perf_counter() - began
        if files[index] in truths:
            judge.count(prediction, truths[files[index]])
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
    if rows[0]["steps"] is not None:
        print(_spoken("the first frame", rows[:1]))
        if len(rows) > 1:
            figures["mean_steps"] = statistics.mean(row["steps"] for row in rows[1:])
            figures["mean_residual"] = statistics.mean(row["residual"] for row in rows[1:])
            start = "the frame before" if warm else "zero"
            print(_spoken(f"the others, from {start}", rows[1:]))
    if truths:
        figures["segmentation"] = judge.figures()
        judged = "" if len(truths) == len(rows) else f" by the {len(truths)} frames with a mask"
        print(f"mIoU {100 * figures['segmentation']['miou']:.2f} %{judged}")
    return figures


def _spoken(which: str, rows: Sequence[dict[str, Any]]) -> str:
    steps = [row["steps"] for row in rows]
    few, many = min(steps), max(steps)
    spread = "" if few == many else f" ({few} to {many})"
    residual = statistics.mean(row["residual"] for row in rows)
    return (
        f"{which}: {statistics.mean(steps):.4g} evaluations of f{spread}, residual {residual:.2g}"
    )


class Judge:
    """Compares predicted masks with true ones."""

    def __init__(self, bundle: Bundle, data: str | None = None) -> None:
        self.bundle, self.data = bundle, data
        self.names = bundle.classes["segmentation"]
        self.confusion = MulticlassConfusionMatrix(len(self.names), ignore_index=IGNORED)

    def count(self, prediction: Prediction, file: Path) -> None:
        """Compare one frame."""
        part = self.bundle.part("segmentation")
        source = part.source
        if not isinstance(source, Scenes):
            raise ValueError("the data of this model have no masks in files; leave --masks out")
        folder = self.data or part.data
        truth = read_mask(file, source.coding(None if folder is None else Path(folder)))
        assert prediction.mask is not None
        if truth.shape != prediction.mask.shape:
            sizes = [f"{shape[1]}x{shape[0]}" for shape in (truth.shape, prediction.mask.shape)]
            raise DataError(f"{file} is {sizes[0]} pixels, its frame {sizes[1]}; expected the same")
        self.confusion.update(prediction.mask, truth.long())

    def figures(self) -> dict[str, Any]:
        """mIoU and the IoU of every class."""
        return segmentation_figures(self.confusion.compute(), self.names)


def _truths(files: Sequence[str], masks: Path) -> dict[str, Path]:
    """The masks of the frames that have one."""
    if not masks.is_dir():
        raise DataError(f"there is no folder {masks}; expected masks, named like their frames")
    named = {file.stem: file for file in sorted(masks.iterdir()) if file.suffix.lower() in SUFFIXES}
    found = {frame: named[Path(frame).stem] for frame in files if Path(frame).stem in named}
    if not found:
        expected = masks / f"{Path(files[0]).stem}.png"
        raise DataError(f"no frame has a mask in {masks}; expected names such as {expected}")
    return found


def _draw(file: Path, prediction: Prediction, bundle: Bundle) -> None:
    assert prediction.mask is not None
    painted = overlay(prediction.image, prediction.mask, bundle.colours, strength=0.5)
    Image.fromarray((255 * painted).round().astype(np.uint8)).save(file)
