"""Data: the same for the same seed, and clear about what is wrong with it."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from mdeq.data import (
    DataError,
    Examples,
    Once,
    Order,
    batches,
    create_source,
    open_split,
    read_image,
)
from mdeq.data.drawing import KINDS


def shapes(split: str = "train", seed: int = 0, **options: object) -> Examples:
    examples = open_split(
        create_source("shapes", **options), split, training=split == "train", seed=seed
    )
    assert examples is not None
    return examples


class TestShapes:
    def test_an_index_is_always_the_same_image(self) -> None:
        first, again = shapes()[0, 7], shapes()[0, 7]
        assert all(np.array_equal(first[name], again[name]) for name in first)

    @pytest.mark.parametrize("other", [{"split": "val"}, {"split": "test"}])
    def test_splits_share_no_image(self, other: dict[str, str]) -> None:
        images = {shapes()[0, k]["image"].numpy().tobytes() for k in range(100)}
        assert not images & {shapes(**other)[0, k]["image"].numpy().tobytes() for k in range(100)}

    def test_the_mask_shows_the_shape_of_the_label_and_ground(self) -> None:
        examples = shapes()
        for k in range(100):
            sample = examples[0, k]
            assert set(sample["segmentation"].unique().tolist()) == {
                0,
                1 + sample["classification"],
            }

    def test_every_kind_is_about_as_frequent(self) -> None:
        examples = shapes()
        counts = np.bincount([examples[0, k]["classification"] for k in range(500)])
        assert len(counts) == len(KINDS)
        assert counts.min() > 60

    def test_colour_says_nothing_about_the_kind(self) -> None:
        # The mean colour of an image, per kind, differs by no more than chance explains.
        examples = shapes()
        samples = [examples[0, k] for k in range(1000)]
        means = np.stack([s["image"].float().mean(dim=(1, 2)).numpy() for s in samples])
        kinds = np.array([s["classification"] for s in samples])
        deviation = means.std(axis=0)
        for kind in range(len(KINDS)):
            error = deviation / np.sqrt((kinds == kind).sum())
            assert (
                np.abs(means[kinds == kind].mean(axis=0) - means.mean(axis=0)) < 4 * error
            ).all()

    def test_the_size_is_free(self) -> None:
        sample = shapes(image_size=48)[0, 0]
        assert sample["image"].shape == (3, 48, 48)
        assert sample["segmentation"].shape == (48, 48)

    def test_flips_move_image_and_mask_together(self) -> None:
        plain, flipped = shapes()[0, 3], shapes(augment=True)
        for epoch in range(8):
            sample = flipped[epoch, 3]
            for axes in ([], [0], [1], [0, 1]):
                if torch.equal(plain["segmentation"].flip(axes), sample["segmentation"]):
                    assert torch.equal(plain["image"].flip([a + 1 for a in axes]), sample["image"])
                    break
            else:
                pytest.fail("the mask is no flip of the original")


class TestOrder:
    def test_a_loader_that_begins_later_yields_what_the_other_goes_on_with(self) -> None:
        whole = list(Order(20, 6, seed=1, stop=10))
        assert list(Order(20, 6, seed=1, start=4, stop=10)) == whole[4:]

    def test_an_epoch_has_every_image_at_most_once_and_epochs_differ(self) -> None:
        order = list(Order(20, 5, seed=1, stop=8))
        first, second = (
            [key for batch in part for key in batch] for part in (order[:4], order[4:])
        )
        assert sorted(index for _, index in first) == list(range(20))
        assert [index for _, index in first] != [index for _, index in second]

    def test_processes_share_the_batch_of_one(self) -> None:
        one = list(Order(20, 6, seed=1, stop=5))
        two = [list(Order(20, 6, seed=1, stop=5, process=p, processes=2)) for p in (0, 1)]
        assert [set(batch) for batch in one] == [{*a, *b} for a, b in zip(*two, strict=True)]

    @pytest.mark.parametrize(("examples", "processes"), [(10, 3), (1, 2), (7, 2)])
    def test_evaluation_counts_every_example_once(self, examples: int, processes: int) -> None:
        seen = [
            index
            for process in range(processes)
            for batch in Once(examples, 2, process=process, processes=processes)
            for _, index in batch
        ]
        assert sorted(seen) == list(range(examples))


class TestLoading:
    @pytest.mark.parametrize("workers", [0, 2])
    def test_augmentation_depends_on_seed_epoch_and_index_alone(self, workers: int) -> None:
        examples = shapes(augment=True, image_size=16)
        expected = {key: examples[key]["image"] for key in [(0, 5), (0, 2), (1, 5)]}
        torch.manual_seed(workers)
        order = [[(0, 5)], [(0, 2)], [(1, 5)]]
        loaded = [batch["image"][0] for batch in batches(examples, order, workers=workers)]
        for image, wanted in zip(loaded, expected.values(), strict=True):
            assert torch.equal(image, wanted)

    def test_loading_leaves_the_random_state_alone(self) -> None:
        before = torch.get_rng_state()
        next(batches(shapes(augment=True), [[(0, 0)]], workers=0))
        assert torch.equal(torch.get_rng_state(), before)

    @pytest.mark.parametrize("workers", [0, 1])
    def test_an_unreadable_file_is_named_without_a_traceback(
        self, tmp_path: Path, workers: int
    ) -> None:
        tree(tmp_path, "train", {"a": 1, "b": 1})
        (tmp_path / "train/a/broken.jpg").write_bytes(b"no image")
        examples = open_split(
            create_source("folder", image_size=8), "train", str(tmp_path), training=True
        )
        with pytest.raises(DataError, match=r"broken\.jpg cannot be read as an image") as raised:
            list(batches(examples, Once(len(examples), 4), workers=workers))
        assert "Traceback" not in str(raised.value)


GRADIENT = np.linspace(0, 255, 64).reshape(8, 8)


class TestImages:
    @pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "LA", "P", "1", "CMYK", "I;16", "I", "F"])
    def test_every_kind_of_image_becomes_three_channels(self, tmp_path: Path, mode: str) -> None:
        grey = Image.fromarray(GRADIENT.astype(np.uint8))
        if mode.startswith("I"):
            image = Image.fromarray((GRADIENT * 257).astype(np.uint16))
        else:
            image = grey.convert(mode)
        file = tmp_path / ("image.tiff" if mode in ("CMYK", "F") else "image.png")
        image.save(file)
        pixels = read_image(file)
        assert pixels.shape == (3, 8, 8)
        assert pixels.dtype == torch.uint8
        if mode not in ("1", "P"):
            assert np.abs(pixels.float().mean(dim=0).numpy() - GRADIENT).max() < 3

    def test_transparency_is_laid_on_white(self, tmp_path: Path) -> None:
        Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
        assert (read_image(tmp_path / "clear.png") == 255).all()

    def test_a_transparent_palette_colour_is_laid_on_white(self, tmp_path: Path) -> None:
        image = Image.new("P", (2, 2), 0)
        image.putpalette([10, 20, 30] * 2)
        image.save(tmp_path / "palette.png", transparency=0)
        assert (read_image(tmp_path / "palette.png") == 255).all()

    def test_the_orientation_in_the_metadata_is_followed(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[0x0112] = 6  # to be turned by a quarter
        Image.new("RGB", (6, 4)).save(tmp_path / "turned.jpg", exif=exif)
        assert read_image(tmp_path / "turned.jpg").shape == (3, 6, 4)

    @pytest.mark.parametrize("kind", ["truncated", "text", "empty", "folder"])
    def test_a_broken_file_is_named(self, tmp_path: Path, kind: str) -> None:
        file = tmp_path / f"{kind}.jpg"
        if kind == "folder":
            file.mkdir()
        else:
            Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(
                tmp_path / "whole.jpg"
            )
            whole = (tmp_path / "whole.jpg").read_bytes()
            file.write_bytes(
                {"truncated": whole[: len(whole) // 2], "text": b"hello", "empty": b""}[kind]
            )
        with pytest.raises(DataError, match=f"{kind}.jpg"):
            read_image(file)

    def test_a_missing_file_is_named(self) -> None:
        with pytest.raises(DataError, match=r"there is no file nothing\.png"):
            read_image("nothing.png")


def tree(root: Path, split: str, counts: dict[str, int]) -> None:
    """Folders of small grey images, each of another shade."""
    for label, (name, count) in enumerate(counts.items()):
        folder = root / split / name
        folder.mkdir(parents=True)
        for k in range(count):
            Image.new("RGB", (12, 10), (100 * label + k,) * 3).save(folder / f"{k}.png")


class TestFolder:
    def test_classes_are_the_folders_in_order(self, tmp_path: Path) -> None:
        tree(tmp_path, "train", {"cat": 2, "dog": 3})
        tree(tmp_path, "val", {"dog": 1})
        source = create_source("folder", image_size=8)
        assert source.classes(tmp_path) == {"classification": ["cat", "dog"]}
        train, val = source.samples("train", tmp_path), source.samples("val", tmp_path)
        assert [train[k]["classification"] for k in range(len(train))] == [0, 0, 1, 1, 1]
        assert [val[k]["classification"] for k in range(len(val))] == [1]
        assert source.samples("test", tmp_path) is None

    def test_held_out_images_are_not_trained_on(self, tmp_path: Path) -> None:
        tree(tmp_path, "train", {"cat": 10, "dog": 10})
        source = create_source("folder", holdout=6)
        train, val = (source.samples(split, tmp_path) for split in ("train", "val"))
        files = [{file for file, _ in part.files} for part in (train, val)]
        assert [len(part) for part in files] == [14, 6]
        assert not files[0] & files[1]

    def test_training_images_are_cropped_and_others_centred(self, tmp_path: Path) -> None:
        tree(tmp_path, "train", {"cat": 1, "dog": 1})
        source = create_source("folder", image_size=8)
        tree(tmp_path, "val", {"cat": 1, "dog": 1})
        for split in ("train", "val"):
            image = open_split(source, split, str(tmp_path), training=split == "train")[0, 1][
                "image"
            ]
            assert image.shape == (3, 8, 8)
            assert (image == 100).all()

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda root: None, "holds 0 folders"),
            (lambda root: tree(root, "train", {"a": 3}), "holds 1 folders"),
            (lambda root: tree(root, "train", {"a": 0, "b": 0}), "has no images"),
            (
                lambda root: (tree(root, "train", {"a": 1, "b": 1}), tree(root, "val", {"z": 1})),
                "z/, which is no class",
            ),
        ],
        ids=["nothing", "one class", "empty", "another class"],
    )
    def test_a_wrong_layout_is_explained(self, tmp_path: Path, make: object, message: str) -> None:
        make(tmp_path)
        source = create_source("folder")
        with pytest.raises(DataError, match=message):
            _ = [source.samples(split, tmp_path) for split in ("train", "val")]

    def test_imagenet_has_a_thousand_classes(self, tmp_path: Path) -> None:
        tree(tmp_path, "train", {"n01440764": 1, "n01443537": 1})
        with pytest.raises(DataError, match=r"has 2 classes.*--dataset\.name folder"):
            create_source("imagenet").classes(tmp_path)


def write_cifar10(root: Path, per_file: int = 3) -> np.ndarray:
    """A small CIFAR-10 in the layout of the original; the images of all six files."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6 * per_file, 3072), np.uint8)
    for k, name in enumerate([*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"]):
        part = slice(k * per_file, (k + 1) * per_file)
        stored = {"data": images[part], "labels": [k] * per_file}
        (folder / name).write_bytes(pickle.dumps(stored))
    return images.reshape(-1, 3, 32, 32)


class TestCIFAR10:
    def test_a_copy_without_the_original_sums_is_read_with_a_note(self, tmp_path: Path) -> None:
        images = write_cifar10(tmp_path)
        source = create_source("cifar10")
        with pytest.warns(UserWarning, match="not the original ones"):
            train = source.samples("train", tmp_path)
        assert len(train) == 15
        assert np.array_equal(train[4]["image"].numpy(), images[4])
        assert train[4]["classification"] == 1

    @pytest.mark.filterwarnings("ignore:the files in")
    def test_the_last_training_images_are_held_out(self, tmp_path: Path) -> None:
        images = write_cifar10(tmp_path)
        source = create_source("cifar10", holdout=4)
        train, val = (source.samples(split, tmp_path) for split in ("train", "val"))
        assert [len(train), len(val)] == [11, 4]
        assert np.array_equal(val[0]["image"].numpy(), images[11])
        assert create_source("cifar10").samples("val", tmp_path) is None

    @pytest.mark.filterwarnings("ignore:the files in")
    def test_images_are_normalised_and_shifted_only_when_asked(self, tmp_path: Path) -> None:
        images = write_cifar10(tmp_path)
        original = torch.from_numpy(images[0])
        plain = create_source("cifar10")
        image = open_split(plain, "train", str(tmp_path))[0, 0]["image"]
        assert torch.equal(image, original)
        seen = plain.normalise(image[None], torch.float64)[0]
        for channel, (mean, std) in enumerate(
            [(0.4914, 0.2470), (0.4822, 0.2435), (0.4465, 0.2616)]
        ):
            assert torch.allclose(seen[channel] * std + mean, original[channel].double() / 255)
        varied = open_split(
            create_source("cifar10", augment=True), "train", str(tmp_path), training=True
        )
        shown = [varied[epoch, 0]["image"] for epoch in range(5)]
        assert all(image.shape == original.shape for image in shown)
        assert not any(torch.equal(image, original) for image in shown)

    def test_missing_data_say_what_to_do(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"there is no CIFAR-10 in .*--dataset\.download true"):
            create_source("cifar10").samples("train", tmp_path)
        with pytest.raises(DataError, match="there is no data folder nowhere"):
            create_source("cifar10").samples("train", Path("nowhere"))
        with pytest.raises(DataError, match="needs --data DIR"):
            create_source("cifar10").samples("train", None)

    @pytest.mark.filterwarnings("ignore:the files in")
    def test_a_damaged_file_is_an_error(self, tmp_path: Path) -> None:
        write_cifar10(tmp_path)
        file = tmp_path / "cifar-10-batches-py/data_batch_3"
        file.write_bytes(file.read_bytes()[:500])
        with pytest.raises(DataError, match="is damaged"):
            create_source("cifar10").samples("train", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "shape"}, "did you mean 'shapes'"),
        ({"name": "shapes", "trian": 3}, "did you mean 'train'"),
        ({"name": "shapes", "train": 0}, "train is 0"),
        ({"name": "cifar10", "holdout": 50_000}, "holdout is 50000"),
        ({"name": "folder", "augment": "yes"}, "augment is 'yes'"),
    ],
)
def test_a_wrong_field_is_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_source(**arguments)
