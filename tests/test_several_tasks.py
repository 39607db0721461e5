"""Several tasks at once: on data that have several labels, and on two datasets in alternation."""

import json
import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from PIL import Image

from mdeq.engine import Recipe, create_accelerator, open_bundle, predict, together
from mdeq.engine.losses import training_losses
from mdeq.engine.material import alternating, open_materials
from mdeq.engine.step import compute_gradient
from mdeq.engine.supervision import Supervised
from mdeq.models import MDEQ
from tests.commands import assert_same_weights, call, finish, records, state
from tests.scenes import write_camvid

MODEL = {
    "name": "mdeq_cifar10_small", "channels": [4, 8], "groups": 2, "head_channels": [2, 2],
    "head_width": 8, "dropout": 0.0, "solver": {"max_steps": 4}, "backward": {"mode": "one_step"},
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Images with labels, and images with masks."""
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for name in ("one", "two"):
            folder = root / "labels" / split / name
            folder.mkdir(parents=True)
            for k in range(6):
                pixels = rng.integers(256, size=(20, 20, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{k}.png")
    write_camvid(root / "masks", {"train/0001TP": 5, "val/0016E5": 3})
    return root / "labels", root / "masks"


def recipe(folders: tuple[Path, Path], **fields: object) -> Recipe:
    """Labels and masks in alternation."""
    values = {
        "model": MODEL,
        "dataset": {"name": "folder", "image_size": 16},
        "data": str(folders[0]),
        "second": {
            "dataset": {"name": "camvid", "crop": [16, 16]},
            "data": str(folders[1]),
            "batch_size": 2,
        },
        "batch_size": 4,
        "length": "6 steps",
    }
    return Recipe.of({**values, **fields})


def options(folders: tuple[Path, Path]) -> list[object]:
    """The same as options of `mdeq train folder`."""
    return [
        "--data", folders[0], "--dataset.image_size", 16, "--batch_size", 4,
        "--model", json.dumps(MODEL), "--second.dataset.name", "camvid",
        "--second.dataset.crop", "[16, 16]", "--second.data", folders[1],
        "--second.batch_size", 2, "--length", "6 steps", "--evaluation.batch_size", 2,
        "--evaluation.every", "4 steps", "--optimiser.warmup", "0 steps", "--workers", 0,
    ]  # fmt: skip


def test_steps_alternate_and_go_on_in_the_same_order(folders: tuple[Path, Path]) -> None:
    settings = recipe(folders)
    materials, accelerator = open_materials(settings), create_accelerator()

    def steps(start: int) -> list[tuple[bool, list[int]]]:
        found = alternating(materials, settings, accelerator, start=start, stop=9)
        return [("segmentation" in batch, batch["id"].tolist()) for _, batch in found]

    whole = steps(0)
    assert [masks for masks, _ in whole] == [False, True] * 4 + [False]
    for start in (1, 4, 7):
        assert steps(start) == whole[start:]


def test_a_step_moves_the_head_of_its_own_task_alone(folders: tuple[Path, Path]) -> None:
    settings = recipe(folders)
    materials, accelerator = open_materials(settings), create_accelerator()
    classes = {task: names for m in materials for task, names in m.classes.items()}
    model = Supervised(MDEQ(settings.model_config(classes)), {})
    batches = alternating(materials, settings, accelerator, start=0, stop=2)
    for (material, batch), moved, rests in zip(
        batches, ("classification", "segmentation"), ("segmentation", "classification"), strict=True
    ):
        model.zero_grad()
        before = model.model.heads[rests].state_dict()
        before = {name: value.clone() for name, value in before.items()}
        batch["image"] = material.source.normalise(batch["image"], torch.float32)
        compute_gradient(
            model, batch, settings, accelerator=accelerator, track_scales=False,
            losses=training_losses(settings, classes), weights=dict.fromkeys(classes, 1.0),
        )  # fmt: skip
        assert all(p.grad is not None for p in model.model.heads[moved].parameters())
        assert all(p.grad is None for p in model.model.heads[rests].parameters())
        for name, value in model.model.heads[rests].state_dict().items():  # BatchNorm's too
            assert torch.equal(value, before[name])


def test_a_run_trains_evaluates_and_predicts_for_both(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    figures = tmp_path / "figures.json"
    run = tmp_path / "run"
    assert call("train", "folder", "--output", run, *options(folders), "--json", figures) == 0
    trained = json.loads(figures.read_text())
    assert {"classification", "segmentation", "equilibrium"} <= trained.keys()
    assert trained["examples"] == 12 + 3
    moved = tmp_path / "moved"
    for data, name in zip(folders, ("labels", "masks"), strict=True):
        shutil.copytree(data, moved / name)
    places = ["--data", moved / "labels", "--second-data", moved / "masks"]
    for more in ([], ["--split", "val", "--batch-size", 5], places, ["--window", "[24, 32]"]):
        assert call("evaluate", run, *more, "--json", figures) == 0
        again = json.loads(figures.read_text())
        assert again["split"] == "val"
        assert again["classification"] == trained["classification"]
        assert again["segmentation"]["confusion"] == trained["segmentation"]["confusion"]
    drawn = ["--window", "[16, 16]", "--pictures", tmp_path / "pictures"]
    assert call("evaluate", run, *drawn) == 0
    assert (tmp_path / "pictures" / "0000.png").is_file()
    found = predict(open_bundle(str(run)), next((folders[1] / "val").iterdir()))
    assert found.probabilities is not None
    assert found.mask is not None


def test_a_run_of_two_datasets_goes_on_exactly_elsewhere(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    for name in ("whole", "half"):
        assert call("train", "folder", "--output", tmp_path / name, *options(folders)) == 0
    (tmp_path / "half" / "last.ckpt").unlink()  # the one before is of step 4
    moved = tmp_path / "moved"
    shutil.copytree(folders[1], moved)
    assert call("train", "--resume", tmp_path / "half", "--second.data", moved) == 0
    assert_same_weights(tmp_path / "whole", tmp_path / "half")


def test_the_best_weights_are_not_chosen_on_a_test_split(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    labels = tmp_path / "labels"
    shutil.copytree(folders[0], labels)
    (labels / "val").rename(labels / "test")
    run = tmp_path / "run"
    assert call("train", "folder", "--output", run, *options((labels, folders[1]))) == 0
    seen = [record["val"] for record in records(run) if "val" in record]
    assert seen
    assert all("segmentation" in figures and "classification" not in figures for figures in seen)
    assert call("evaluate", run, "--json", tmp_path / "figures.json") == 0
    assert json.loads((tmp_path / "figures.json").read_text())["split"] == "test and val"


def test_two_processes_end_like_one(folders: tuple[Path, Path], tmp_path: Path) -> None:
    # Whole images, so that every process has as many pixels that count.
    same = ["--second.dataset.crop", "[24, 32]", "--second.dataset.augment", "false"]
    same += ["--precision", "float64"]
    for name, processes in (("one", 1), ("two", 2)):
        arguments = ["train", "folder", "--output", name, *options(folders), *same]
        status, said = finish(*arguments, cwd=tmp_path, processes=processes)
        assert status == 0, said
    first, second = (state(tmp_path / name)["model"] for name in ("one", "two"))
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--tasks.segmentation", 2], "no task of folder has a weight in tasks"),
        (["--second.batch_size", 9], "second.batch_size is 9, but there are 5 images"),
    ],
)
def test_what_cannot_work_is_said_before_the_work(
    folders: tuple[Path, Path],
    tmp_path: Path,
    wrong: list[object],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call("train", "folder", "--output", tmp_path / "run", *options(folders), *wrong) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_datasets_of_the_same_task_are_refused(folders: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="both have labels for segmentation"):
        open_materials(recipe(folders, dataset={"name": "shapes"}, data=None))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"data": "x"}, "second names no dataset; say --second.dataset.name"),
        ({"dataset": None}, "second names no dataset; say --second.dataset.name"),
        ({"dataset": {"name": "camvid"}, "batch": 3}, "did you mean 'batch_size'"),
        ({"dataset": {"name": "camvit"}}, "did you mean 'camvid'"),
        ({"dataset": {"name": "camvid"}, "batch_size": 0}, "second.batch_size is 0"),
    ],
)
def test_a_wrong_second_is_named(second: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(model=MODEL, dataset={"name": "shapes"}, second=second)


def test_figures_together_weigh_every_image_alike() -> None:
    whole = together(
        [
            {"split": "test", "loss": 1.0, "examples": 3, "seconds": 1.0,
             "classification": {"top1": 0.5}, "equilibrium": {"residual": 0.1}},
            {"split": "val", "loss": 2.0, "examples": 1, "seconds": 1.0,
             "segmentation": {"miou": 0.2}, "equilibrium": {"residual": 0.5}},
        ]
    )  # fmt: skip
    assert whole["split"] == "test and val"
    assert whole["loss"] == 3
    assert whole["examples"] == 4
    assert whole["equilibrium"]["residual"] == pytest.approx(0.2)
    assert whole["classification"]["top1"] == 0.5
    assert whole["segmentation"]["miou"] == 0.2


class TestAuxiliary:
    SHAPES: ClassVar = [
        "--dataset.train", 16, "--dataset.val", 4, "--dataset.test", 4, "--batch_size", 4,
        "--dataset.image_size", 16, "--model", json.dumps(MODEL), "--length", "4 steps",
        "--optimiser.warmup", "0 steps", "--evaluation.every", "2 steps",
        "--auxiliary.segmentation.1", 0.4, "--auxiliary.classification.0", 0.2,
    ]  # fmt: skip

    def test_scales_learn_by_losses_of_their_own(self, tmp_path: Path) -> None:
        assert call("train", "--output", tmp_path / "run", *self.SHAPES) == 0
        saved = state(tmp_path / "run")
        assert sorted(saved["auxiliary"]) == [
            "classification_of_scale_0.classifier.bias",
            "classification_of_scale_0.classifier.weight",
            "segmentation_of_scale_1.classifier.bias",
            "segmentation_of_scale_1.classifier.weight",
        ]
        written = [r["train"] for r in records(tmp_path / "run") if "train" in r]
        assert written[-1]["segmentation_loss_of_scale_1"] > 0
        names = open_bundle(str(tmp_path / "run")).model.state_dict()
        assert not any("of_scale" in name for name in names)

    def test_a_resumed_run_goes_on_exactly(self, tmp_path: Path) -> None:
        for name in ("whole", "half"):
            assert call("train", "--output", tmp_path / name, *self.SHAPES) == 0
        (tmp_path / "half" / "last.ckpt").unlink()  # the one before is of step 2
        assert call("train", "--resume", tmp_path / "half") == 0
        assert_same_weights(tmp_path / "whole", tmp_path / "half")

    def test_the_total_is_the_weighted_sum(self) -> None:
        torch.manual_seed(0)
        settings = Recipe(
            model=MODEL,
            dataset={"name": "shapes", "image_size": 16},
            auxiliary={"segmentation": {1: 0.4}},
        )
        (material,) = open_materials(settings)
        model = Supervised(MDEQ(settings.model_config(material.classes)), settings.auxiliary).eval()
        batch = next(alternating([material], settings, create_accelerator(), start=0, stop=1))[1]
        batch["image"] = material.source.normalise(batch["image"], torch.float32)
        losses = training_losses(settings, material.classes)
        seen = compute_gradient(
            model, batch, settings, accelerator=create_accelerator(), losses=losses,
            weights={"classification": 1.0, "segmentation": 3.0}, track_scales=False,
        ).figures  # fmt: skip
        with torch.no_grad():
            logits = model(
                batch["image"], tasks=["classification", "segmentation"], on_equilibrium=id
            )
        scale = model.model.features(batch["image"])[1]
        head = model.auxiliary["segmentation_of_scale_1"].classifier
        of_scale = torch.nn.functional.interpolate(head(scale), scale_factor=2, mode="bilinear")
        expected = losses["classification"](logits["classification"], batch["classification"])
        expected = expected + 3 * losses["segmentation"](
            logits["segmentation"], batch["segmentation"]
        )
        expected = expected + 3 * 0.4 * losses["segmentation"](of_scale, batch["segmentation"])
        torch.testing.assert_close(seen["loss"][0], expected.detach())

    @pytest.mark.parametrize(
        ("auxiliary", "message"),
        [
            ({"segmentation": 0.4}, "auxiliary.segmentation is 0.4; expected weights of scales"),
            ({"segmentation": {"1": 0}}, "auxiliary.segmentation.1 is 0"),
        ],
    )
    def test_a_wrong_one_is_named(self, auxiliary: dict[str, object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Recipe(model=MODEL, dataset={"name": "shapes"}, auxiliary=auxiliary)

    @pytest.mark.parametrize(
        ("auxiliary", "message"),
        [
            ({"segmentation": {5: 1.0}}, r"names scale 5; expected 0 \(the finest\) to 1"),
            ({"depth": {0: 1.0}}, "auxiliary.depth is of no task"),
        ],
    )
    def test_so_is_one_that_the_model_has_not(
        self, auxiliary: dict[str, dict[int, float]], message: str
    ) -> None:
        config = Recipe(model=MODEL, dataset={"name": "shapes"}).model_config(
            {"segmentation": ["a", "b"]}
        )
        with pytest.raises(ValueError, match=message):
            Supervised(MDEQ(config), auxiliary)
