"""mIoU of `mdeq evaluate` against a confusion matrix counted by hand, pixel by pixel."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mdeq.engine import open_bundle
from tests.commands import call, finish
from tests.scenes import write_camvid
from tests.test_scenes import TINY

CLASSES = 11


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that segments, and its data: five frames, most classes absent, void in them."""
    root = tmp_path_factory.mktemp("scores")
    write_camvid(root / "data", {"train/0001TP": 3, "val/0016E5": 5})
    arguments = ["--data", root / "data", "--output", root / "run", *TINY]
    assert call("train", "camvid", *arguments, "--optimiser.warmup", "0 steps") == 0
    return root


@pytest.fixture(scope="module")
def by_hand(root: Path) -> np.ndarray:
    """How many pixels of every true class got which class."""
    bundle = open_bundle(str(root / "run"))
    counts = np.zeros((CLASSES, CLASSES), dtype=int)
    for file in sorted((root / "data/val").iterdir()):
        pixels = torch.from_numpy(np.array(Image.open(file).convert("RGB"))).permute(2, 0, 1)
        images = bundle.parts[0].source.normalise(pixels[None], torch.float32)
        with torch.no_grad():
            guess = bundle.model(images)[0].argmax(dim=0)
        truth = np.array(Image.open(root / "data/valannot" / f"{file.stem}.png"))
        for row in range(truth.shape[0]):
            for column in range(truth.shape[1]):
                if truth[row, column] != 11:  # void
                    counts[truth[row, column], guess[row, column]] += 1
    return counts


@pytest.mark.parametrize(("processes", "batch_size"), [(1, 1), (1, 2), (2, 2)])
def test_evaluate_counts_every_pixel_once(
    root: Path, by_hand: np.ndarray, batch_size: int, processes: int, tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    arguments = ["evaluate", root / "run", "--batch-size", batch_size, "--json", file]
    status, said = finish(*arguments, cwd=tmp_path, processes=processes)
    assert status == 0, said
    figures = json.loads(file.read_text())["segmentation"]
    assert figures["confusion"] == by_hand.tolist()
    iou = []
    for k, value in enumerate(figures["iou"].values()):
        union = by_hand[k].sum() + by_hand[:, k].sum() - by_hand[k, k]
        if union == 0:
            assert value is None  # neither there nor predicted: no part of the mean
        else:
            assert value == pytest.approx(by_hand[k, k] / union)
            iou.append(by_hand[k, k] / union)
    assert figures["miou"] == pytest.approx(np.mean(iou))
    assert 0 < len(iou) < CLASSES
