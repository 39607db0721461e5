"""Images and masks: read as they are stored, varied together, and clear about what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mdeq.data import IGNORED, DataError, Examples, create_source, open_split
from tests.commands import call
from tests.scenes import PALETTE, blocks, write_camvid, write_cityscapes, write_own


def examples(name: str, root: Path, split: str, *, training: bool = False, **options: object):
    """A split."""
    found = open_split(create_source(name, **options), split, str(root), training=training)
    assert isinstance(found, Examples)
    return found


def read(name: str, root: Path, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """The first image (H, W, 3) of a split and its mask."""
    sample = examples(name, root, split)[0, 0]
    if isinstance(sample, DataError):  # handed over by the loader, to be raised there
        raise sample
    return sample["image"].permute(1, 2, 0).numpy(), sample["segmentation"].numpy()


class TestReading:
    def test_camvid(self, tmp_path: Path) -> None:
        write_camvid(tmp_path, {"train/0001TP": 2, "val/0016E5": 1})
        image, mask = read("camvid", tmp_path)
        assert np.array_equal(mask[1:], blocks(0, (24, 32))[1:])
        assert (mask[0] == IGNORED).all()
        assert np.array_equal(image, PALETTE[blocks(0, (24, 32))])
        assert len(examples("camvid", tmp_path, "val")) == 1
        assert open_split(create_source("camvid"), "test", str(tmp_path)) is None

    def test_a_drive_can_be_kept_out_of_training(self, tmp_path: Path) -> None:
        write_camvid(tmp_path, {"train/0001TP": 2, "train/0006R0": 3, "val/0016E5": 1})
        sizes = [
            len(examples("camvid", tmp_path, split, holdout="0001TP")) for split in ("train", "val")
        ]
        assert sizes == [3, 2]

    def test_cityscapes(self, tmp_path: Path) -> None:
        write_cityscapes(tmp_path, {"train/aachen": 1, "train/bonn": 2, "val/ulm": 1})
        assert len(examples("cityscapes", tmp_path, "train")) == 3
        _, mask = read("cityscapes", tmp_path)
        train_ids = np.array([0, 1, 2])  # of road, sidewalk, building
        assert np.array_equal(mask[2:], train_ids[blocks(0, (32, 64))][2:])
        assert (mask[:2] == IGNORED).all()

    def test_cityscapes_has_the_19_classes_in_the_usual_order(self) -> None:
        source = create_source("cityscapes")
        names = source.classes(None)["segmentation"]
        assert len(names) == 19
        assert names[:3] == ["road", "sidewalk", "building"]
        assert names[-1] == "bicycle"
        assert source.colours(None)[0] == (128, 64, 128)

    @pytest.mark.parametrize("in_colours", [False, True])
    def test_ones_own(self, tmp_path: Path, in_colours: bool) -> None:
        write_own(tmp_path, in_colours=in_colours)
        _, mask = read("masks", tmp_path, "val")
        assert np.array_equal(mask[1:], blocks(0, (24, 32))[1:])
        assert (mask[0] == IGNORED).all()

    def test_a_palette_may_number_the_colours_as_it_likes(self, tmp_path: Path) -> None:
        write_own(tmp_path, in_colours=True)
        file = tmp_path / "masks/val/0.png"
        with Image.open(file) as mask:
            indexed = mask.convert("P", palette=Image.Palette.ADAPTIVE, colors=16)
        indexed.save(file)
        expected = blocks(0, (24, 32))
        assert not np.array_equal(np.asarray(indexed)[1:], expected[1:])
        assert np.array_equal(read("masks", tmp_path, "val")[1][1:], expected[1:])

    def test_a_palette_of_other_colours_is_for_show(self, tmp_path: Path) -> None:
        write_own(tmp_path, in_colours=False)
        file = tmp_path / "masks/val/0.png"
        with Image.open(file) as mask:
            mask.putpalette([7, 7, 7, 8, 8, 8, 9, 9, 9])
            mask.save(file)
        assert np.array_equal(read("masks", tmp_path, "val")[1][1:], blocks(0, (24, 32))[1:])

    def test_one_folder_can_be_all_there_is(self, tmp_path: Path) -> None:
        write_own(tmp_path, in_colours=False)
        description = (tmp_path / "dataset.yaml").read_text()
        more = "images: images/train\nmasks: masks/train\n"
        (tmp_path / "dataset.yaml").write_text(description + more)
        source = create_source("masks", holdout="3")
        found = [open_split(source, split, str(tmp_path)) for split in ("train", "val", "test")]
        assert [found[0] and len(found[0]), found[1] and len(found[1]), found[2]] == [3, 1, None]
        assert open_split(create_source("masks"), "val", str(tmp_path)) is None

    def test_pictures_without_masks_are_no_test_split(self, tmp_path: Path) -> None:
        write_own(tmp_path, in_colours=False)
        (tmp_path / "images/val").rename(tmp_path / "images/test")
        assert open_split(create_source("masks"), "test", str(tmp_path)) is None


class TestVarying:
    @pytest.mark.parametrize("scale", [(1.0, 1.0), (0.5, 2.1)])
    def test_image_and_mask_stay_together(self, tmp_path: Path, scale: tuple[float, float]) -> None:
        write_camvid(tmp_path, {"train/0001TP": 1}, size=(96, 128))
        varied = examples(
            "camvid", tmp_path, "train", training=True, crop=(80, 160), scale=scale, holdout=None
        )
        sizes = set()
        for epoch in range(20):
            sample = varied[epoch, 0]
            image, mask = sample["image"].permute(1, 2, 0).numpy(), sample["segmentation"].numpy()
            assert mask.shape == (80, 160)
            seen = mask != IGNORED
            sizes.add(int(seen.sum()))
            nearest = np.abs(image[:, :, None].astype(int) - PALETTE).sum(axis=3).argmin(axis=2)
            assert (nearest == mask)[seen].mean() > 0.95  # but for the borders of blocks
        assert (len(sizes) > 5) == (scale != (1.0, 1.0))

    def test_what_is_beyond_the_image_is_ignored_and_of_the_mean_colour(
        self, tmp_path: Path
    ) -> None:
        write_camvid(tmp_path, {"train/0001TP": 1})
        varied = examples("camvid", tmp_path, "train", training=True, crop=(64, 64), augment=False)
        sample = varied[0, 0]
        outside = (sample["segmentation"] == IGNORED).numpy()
        assert outside.sum() == 64 * 64 - 23 * 32
        corner = sample["image"][:, 0, 0]
        assert torch.equal(corner, torch.tensor([124, 116, 104], dtype=torch.uint8))

    def test_the_same_seed_and_epoch_give_the_same_crop(self, tmp_path: Path) -> None:
        write_camvid(tmp_path, {"train/0001TP": 1})
        first, again = (
            examples("camvid", tmp_path, "train", training=True, crop=(16, 16))[3, 0]
            for _ in range(2)
        )
        assert torch.equal(first["image"], again["image"])
        assert torch.equal(first["segmentation"], again["segmentation"])


def spoil_value(root: Path) -> None:
    mask = np.array(Image.open(root / "masks/train/0.png"))
    mask[5, 7] = 42
    Image.fromarray(mask).save(root / "masks/train/0.png")


def spoil_colour(root: Path) -> None:
    mask = np.full((24, 32, 3), [1, 2, 3], np.uint8)
    Image.fromarray(mask).save(root / "masks/train/0.png")


def spoil_size(root: Path) -> None:
    Image.fromarray(blocks(0, (24, 30))).save(root / "masks/train/0.png")


def describe(text: str) -> Callable[[Path], None]:
    def spoil(root: Path) -> None:
        (root / "dataset.yaml").write_text(text)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_value, r"masks/train/0.png holds the value 42, which is none of the 3 classes"),
        (spoil_colour, r"masks/train/0.png holds the colour \(1, 2, 3\)"),
        (spoil_size, r"images/train/0.png is 32x24 pixels, its mask .*0.png 30x24"),
        (lambda root: (root / "masks/train/0.png").unlink(), "images/train/0.png has no mask"),
        (lambda root: (root / "images/train/0.png").unlink(), "0.png is a mask without an image"),
        (lambda root: (root / "masks/train/0.png").write_text("x"), "0.png cannot be read as"),
        (lambda root: (root / "dataset.yaml").unlink(), "there is no .*dataset.yaml"),
        (describe("classes: [a, b]"), r"classes is \['a', 'b'\]; expected names, each with"),
        (describe("classes: {a: [1, 2], b: [0, 0, 0]}"), r"the colour of a is \[1, 2\]"),
        (describe("colors: 1"), "has a field 'colors'; expected images, masks"),
        (describe("{"), "is not YAML"),
        (describe("a"), "holds no description"),
        (describe("classes: {a: [0, 0, 0], b: [1, 1, 1]}\nignore: 3"), "ignore is 3; expected"),
        (describe("classes: {a: [0, 0, 0], b: [1, 1, 1]}\nignore: [1]"), "1 stands twice among"),
        (describe("classes: {a: [0, 0, 0], b: [0, 0, 0]}"), r"\(0, 0, 0\) stands twice among"),
        (describe("images: 3"), "images is 3; expected a folder"),
        (describe("images: train"), r"one of train and masks/\{split\} has \{split\} in it"),
        (describe("classes: {a: [1, 1, 1]}"), "names 1 classes; expected 2 to 254"),
        (
            lambda root: (root / "images/train/0.jpg").write_text(""),
            "0.jpg and 0.png have the same name",
        ),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    write_own(tmp_path, in_colours=False)
    spoil(tmp_path)
    with pytest.raises(DataError, match=message):
        read("masks", tmp_path)


def test_a_missing_mask_of_cityscapes_is_named(tmp_path: Path) -> None:
    write_cityscapes(tmp_path, {"train/aachen": 1})
    next((tmp_path / "gtFine").rglob("*.png")).unlink()
    with pytest.raises(DataError, match=r"leftImg8bit.png has no mask; expected .*labelIds.png"):
        examples("cityscapes", tmp_path, "train")


@pytest.mark.parametrize("missing", ["leftImg8bit/val", "gtFine/train"])
def test_a_missing_folder_of_cityscapes_is_named(tmp_path: Path, missing: str) -> None:
    write_cityscapes(tmp_path, {"train/aachen": 1, "val/ulm": 1})
    (tmp_path / missing).rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=f"there is no folder .*{missing}; expected"):
        examples("cityscapes", tmp_path, missing.rpartition("/")[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"crop": 5}, "crop is 5; expected two numbers"),
        ({"crop": (0, 5)}, "a side of crop is 0"),
        ({"scale": (2, 1)}, r"scale is \(2, 1\); expected the smaller factor first"),
        ({"colour": 2}, "colour is 2"),
        ({"holdout": ""}, "holdout is ''"),
    ],
)
def test_a_wrong_field_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_source("camvid", **options)


TINY = [
    "--model.channels", "[4, 8]", "--model.groups", "2", "--model.expansion", "1",
    "--model.solver.max_steps", "3", "--batch_size", "2",
    "--dataset.crop", "[16, 32]", "--length", "3 steps", "--workers", "0",
    "--evaluation.every", "3 steps",
]  # fmt: skip


def test_cityscapes_trains_and_evaluates_end_to_end(tmp_path: Path) -> None:
    write_cityscapes(tmp_path / "data", {"train/aachen": 2, "train/bonn": 1, "val/ulm": 3})
    run, figures = tmp_path / "run", tmp_path / "figures.json"
    arguments = ["--data", tmp_path / "data", "--output", run, *TINY]
    arguments += ["--model.backward.max_steps", 3]
    assert call("train", "cityscapes-small", *arguments, "--json", figures) == 0
    trained = json.loads(figures.read_text())
    assert trained["split"] == "val"
    assert len(trained["segmentation"]["iou"]) == 19
    assert trained["segmentation"]["iou"]["train"] is None  # absent
    assert call("evaluate", run, "--split", "val", "--batch-size", 2, "--json", figures) == 0
    assert json.loads(figures.read_text())["segmentation"] == trained["segmentation"]


def test_ones_own_images_may_have_sizes_of_their_own(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_own(data, in_colours=False)
    for kind in ("images", "masks"):
        file = data / kind / "val/1.png"
        with Image.open(file) as picture:
            picture.crop((0, 0, 20, 24)).save(file)
    arguments = ["--data", data, "--output", tmp_path / "run", *TINY]
    assert call("train", "masks", *arguments, "--optimiser.warmup", "0 steps") == 0
    confusion = []
    for batch_size in (1, 4):
        file = tmp_path / "figures.json"
        options = ["--split", "val", "--batch-size", batch_size, "--json", file]
        assert call("evaluate", tmp_path / "run", *options) == 0
        confusion.append(json.loads(file.read_text())["segmentation"]["confusion"])
    assert confusion[0] == confusion[1]
    assert np.sum(confusion[0]) == 3 * 23 * 32 + 23 * 20


def test_a_wrong_mask_is_named_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    write_own(data, in_colours=False)
    file = data / "masks/val/3.png"
    Image.fromarray(np.full((24, 32), 7, np.uint8)).save(file)
    arguments = ["--data", data, "--output", run, *TINY, "--optimiser.warmup", "0 steps"]
    assert call("train", "masks", *arguments) == 2
    assert f"{file} holds the value 7" in capsys.readouterr().err
    assert not run.exists()


def test_the_size_of_a_turned_photograph_is_that_of_its_mask(tmp_path: Path) -> None:
    write_own(tmp_path, in_colours=False)
    image, exif = Image.new("RGB", (24, 32)), Image.Exif()
    exif[0x0112] = 6  # lies on its side
    (tmp_path / "images/train/0.png").unlink()
    image.save(tmp_path / "images/train/0.jpg", exif=exif)
    samples = examples("masks", tmp_path, "train").samples
    samples.check(0)
    assert samples[0]["image"].shape[1:] == samples[0]["segmentation"].shape == (24, 32)
