"""Frames of a video: each solve starts where the one before ended."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mdeq.engine import open_bundle, predict, stream
from tests.commands import call
from tests.problems import contract
from tests.scenes import write_camvid
from tests.test_scenes import TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that segments, and its data beside it."""
    root = tmp_path_factory.mktemp("stream")
    write_camvid(root / "data", {"train/0001TP": 3, "val/0016E5": 4})
    arguments = ["--data", root / "data", "--output", root / "run", *TINY]
    assert call("train", "camvid", *arguments, "--optimiser.warmup", "0 steps") == 0
    return root / "run"


def test_the_same_frame_again_starts_at_its_own_equilibrium(run: Path) -> None:
    bundle = open_bundle(str(run))
    contract(bundle.model).solver = {"tol": 1e-4, "max_steps": 60}
    frame = str(sorted((run.parent / "data/val").iterdir())[0])
    first, again = stream(bundle, [frame, frame])
    assert first.steps > 3
    assert again.steps < first.steps / 2
    cold, still_cold = stream(bundle, [frame, frame], warm=False)
    assert cold.steps == still_cold.steps == first.steps


def test_a_frame_of_another_size_starts_cold(run: Path, tmp_path: Path) -> None:
    bundle = open_bundle(str(run))
    sizes = [(24, 32), (24, 40)]
    files = [tmp_path / f"{k}.png" for k in range(2)]
    for file, size in zip(files, sizes, strict=True):
        Image.fromarray(np.full((*size, 3), 90, np.uint8)).save(file)
    _, second = stream(bundle, files)
    assert second.steps == predict(bundle, files[1]).steps
    assert second.mask.shape == sizes[1]


def test_the_command_reports_steps_and_miou_warm_and_cold(run: Path, tmp_path: Path) -> None:
    data, figures = run.parent / "data", tmp_path / "figures.json"
    still = tmp_path / "still"  # one picture, four times
    still.mkdir()
    picture, mask = (sorted((data / name).iterdir())[0] for name in ("val", "valannot"))
    for k in range(4):
        shutil.copy(picture, still / f"{k}{picture.suffix}")
        shutil.copy(mask, tmp_path / f"{k}.png")
    bundle = open_bundle(str(run))
    contract(bundle.model)
    bundle.save(tmp_path / "model")
    solver = ["--solver.tol", "1e-4", "--solver.max_steps", 60]
    steps, scores = [], []
    for cold in ("false", "true"):
        arguments = ["--stream", still, "--masks", tmp_path, "--json", figures, "--cold", cold]
        frames = tmp_path / cold
        arguments += [*solver, "--output", frames]
        assert call("predict", tmp_path / "model", *arguments) == 0
        found = json.loads(figures.read_text())
        assert [frame["steps"] > 0 for frame in found["frames"]] == [True] * 4
        drawn = sorted(file.name for file in frames.iterdir())
        assert drawn == ["0.png", "1.png", "2.png", "3.png", "legend.png"]
        steps.append(found["mean_steps"])
        scores.append(found["segmentation"]["iou"])
    assert steps[0] < steps[1] / 2
    assert scores[0] == scores[1]
    assert set(scores[0]) == set(bundle.classes["segmentation"])


def test_frames_come_in_the_order_of_their_numbers_and_are_judged_where_they_have_masks(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, frames = run.parent / "data", tmp_path / "frames"
    frames.mkdir()
    picture, mask = (sorted((data / name).iterdir())[0] for name in ("val", "valannot"))
    for k in (10, 2, 1):
        shutil.copy(picture, frames / f"frame_{k}.png")
    (tmp_path / "masks").mkdir()
    shutil.copy(mask, tmp_path / "masks/frame_2.png")
    file = tmp_path / "figures.json"
    options = ["--masks", tmp_path / "masks", "--output", tmp_path / "out", "--json", file]
    assert call("predict", run, "--stream", frames, *options) == 0
    found = json.loads(file.read_text())
    assert [Path(frame["file"]).stem for frame in found["frames"]] == [
        "frame_1", "frame_2", "frame_10",
    ]  # fmt: skip
    assert np.sum(found["segmentation"]["confusion"]) == (np.array(Image.open(mask)) != 11).sum()
    assert "by the 1 frames with a mask" in capsys.readouterr().out
    listed = [frames / f"frame_{k}.png" for k in (10, 1)]
    assert call("predict", run, *options[2:], "--stream", *listed) == 0
    found = json.loads(file.read_text())
    assert [frame["file"] for frame in found["frames"]] == [str(frame) for frame in listed]


def test_a_broken_frame_does_not_spoil_those_after_it(run: Path) -> None:
    bundle = open_bundle(str(run))
    frames = [str(file) for file in sorted((run.parent / "data/val").iterdir())[:3]]
    found = []
    for index, prediction in enumerate(stream(bundle, frames)):
        found.append(prediction)
        weight = bundle.model.stem.conv1.weight.data
        if index == 0:
            kept = weight.clone()
            weight.fill_(float("nan"))
        elif index == 1:
            weight.copy_(kept)
    finite = [math.isfinite(prediction.residual) for prediction in found]
    assert finite == [True, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected images, or --stream FRAMES"),
        (["x.png", "--stream", "y"], "expected images, or --stream FRAMES"),
        (["x.png", "--cold", "true"], "--masks and --cold are for --stream"),
        (["--stream", "DATA/val", "--masks", "DATA/trainannot"], "no frame has a mask in"),
        (["--stream", "DATA/val", "--data", "DATA"], "--data is for --masks"),
        (["--stream", "DATA/val", "--output", "DATA/val"], "say --output with another folder"),
        (["--stream", "DATA/val", "--masks", "DATA/none"], "there is no folder"),
    ],
)
def test_mistakes(
    run: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(run.parent / "data")
    assert call("predict", run, *(a.replace("DATA", data) for a in arguments)) == 2
    assert message in capsys.readouterr().err


def test_an_evaluation_is_drawn(run: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    assert call("evaluate", run, "--split", "val", "--batch-size", 2, "--pictures", pictures) == 0
    names = ["0000.png", "0001.png", "0002.png", "0003.png", "confusion.png", "iou.png"]
    assert sorted(file.name for file in pictures.iterdir()) == names
    for name in names:
        with Image.open(pictures / name) as picture:
            assert min(picture.size) > 200


def test_a_model_is_evaluated_as_in_training_unless_told_otherwise(
    run: Path, tmp_path: Path
) -> None:
    bundle = open_bundle(str(run))
    windowed = replace(bundle, parts=[replace(bundle.parts[0], window=(16, 16), batch_size=1)])
    windowed.save(tmp_path / "model")
    confusion = []
    for model, more in ((run, ["--window", "[16, 16]"]), (tmp_path / "model", [])):
        file = tmp_path / "figures.json"
        assert call("evaluate", model, *more, "--json", file) == 0
        confusion.append(json.loads(file.read_text())["segmentation"]["confusion"])
    assert confusion[0] == confusion[1]
    assert open_bundle(str(run)).parts[0].batch_size == 4  # the recipe's


def test_in_windows_of_the_whole_size_an_evaluation_is_the_same(run: Path, tmp_path: Path) -> None:
    scores = []
    for window in ([], ["--window", "[24, 32]"], ["--window", "[16, 16]"]):
        file = tmp_path / "figures.json"
        arguments = ["--split", "val", "--batch-size", 2, *window, "--json", file]
        assert call("evaluate", run, *arguments) == 0
        scores.append(json.loads(file.read_text())["segmentation"]["confusion"])
    assert scores[0] == scores[1] != scores[2]
    assert np.sum(scores[0]) == np.sum(scores[2])
