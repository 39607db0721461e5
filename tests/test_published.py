"""The networks of the paper's tables: published sizes, answers of the right shape, one trainer."""

import sys
from pathlib import Path

import pytest
import torch

import mdeq
from mdeq.models import NETWORKS, MissingLibraryError, PublishedConfig, build, configure
from tests.commands import call

PUBLISHED = {name: c for name, c in NETWORKS.items() if isinstance(c, PublishedConfig)}
SIZES = {  # millions of parameters: the paper's, and those of the library where they differ
    "alexnet_imagenet": 61.1,  # the paper's 238 are about the megabytes of its weights
    "resnet18_imagenet": 11.7,  # the paper: 13
    "resnet34_imagenet": 21,
    "inception_imagenet": 6.6,  # the paper: 12, of a variant that none of these libraries has
    "resnet50_imagenet": 26,
    "hrnet_w18_imagenet": 21,
    "resnet101_imagenet": 44.5,  # the paper: 52
    "wide_resnet50_imagenet": 69,
    "densenet264_imagenet": 74,
    "hrnet_w18_small_cityscapes": 4.0,
    "unetplusplus_cityscapes": 68.0,  # the paper: 59.5
    "dilated_resnet101_cityscapes": 52.1,
    "pspnet_cityscapes": 48.9,  # the paper: 65.9
    "deeplabv3_cityscapes": 58.0,
    "hrnet_w48_cityscapes": 65.9,
    "densenet121_cifar10": 7.0,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_are_the_published_ones_within_5_percent(name: str) -> None:
    with torch.device("meta"):
        parameters = sum(p.numel() for p in mdeq.create_model(name).parameters())
    assert parameters / 1e6 == pytest.approx(SIZES[name], rel=0.05)


@pytest.mark.parametrize("name", PUBLISHED)
def test_answers_have_the_shape_of_the_task(name: str) -> None:
    sizes = {"cifar10": (32, 32), "imagenet": (224, 224), "cityscapes": (150, 200)}
    size = sizes[name.rpartition("_")[2]]
    with torch.device("meta"):  # shapes alone: nothing is computed
        model = mdeq.create_model(name, num_classes=7).eval()
        logits = model(torch.empty(2, 3, *size))
    assert logits.shape == ((2, 7, *size) if name.endswith("cityscapes") else (2, 7))


@pytest.mark.parametrize("name", PUBLISHED)
def test_configurations_survive_plain_values(name: str) -> None:
    assert PublishedConfig.from_dict(PUBLISHED[name].to_dict()) == PUBLISHED[name]


def test_small_images_keep_their_size() -> None:
    seen = []
    with torch.device("meta"):
        model = mdeq.create_model("densenet121_cifar10").eval()
        block = model.layers.features.denseblock1
        block.register_forward_hook(lambda module, args, out: seen.append(args[0].shape))
        model(torch.empty(2, 3, 32, 32))
    assert seen == [(2, 64, 32, 32)]


def test_it_can_be_saved_and_loaded(tmp_path: Path) -> None:
    model = mdeq.create_model("hrnet_w18_small_cityscapes", num_classes=3).eval()
    model.save_pretrained(tmp_path)
    images = torch.randn(1, 3, 40, 50)
    torch.testing.assert_close(mdeq.load(tmp_path)(images), model(images), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "task"),
    [("resnet18_imagenet", "classification"), ("hrnet_w18_small_cityscapes", "segmentation")],
)
def test_it_trains_and_evaluates_like_all_others(name: str, task: str, tmp_path: Path) -> None:
    file, run = tmp_path / "recipe.yaml", tmp_path / "run"
    file.write_text(
        f"model: {{name: {name}}}\n"
        "dataset: {name: shapes, train: 8, val: 4, test: 4}\n"
        f"tasks: {{{task}: 1}}\n"
        "length: 2 steps\n"
        "batch_size: 4\n"
    )
    assert call("train", file, "--output", run) == 0
    assert call("evaluate", run) == 0


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("resnet50_imagenet", {"small_images": True}, "small_images is for timm's DenseNets"),
        ("resnet50_imagenet", {"options": 3}, "options is 3; expected a mapping"),
        ("resnet50_imagenet", {"tasks": {"segmentation": 2}}, "has one task"),
        ("hrnet_w48_cityscapes", {"tasks": {"classification": 2}}, "has one task"),
        ("deeplabv3_cityscapes", {"tasks": {"classification": 2}}, "has one task"),
        ("hrnet_w48_cityscapes", {"options": {"a": 1}}, "an HRNet takes none"),
        ("resnet50_imagenet", {"library": "keras"}, "unknown library 'keras'"),
        (
            "resnet50_imagenet",
            {"tasks": {"classification": 2, "segmentation": 2}},
            "has one task",
        ),
    ],
)
def test_wrong_fields(name: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        configure(name, **change)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("resnet50_imagenet", {"architecture": "resnet49"}),
        ("resnet50_imagenet", {"options": {"wings": 2}}),
        ("deeplabv3_cityscapes", {"architecture": "deeplabv3_resnet49"}),
        ("pspnet_cityscapes", {"architecture": "pspnett"}),
    ],
)
def test_what_a_library_does_not_know_is_a_mistake_in_words(
    name: str, change: dict[str, object]
) -> None:
    with torch.device("meta"), pytest.raises(ValueError, match="cannot make"):
        build(configure(name, **change))


def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "segmentation_models_pytorch", None)  # not installed
    with pytest.raises(MissingLibraryError, match="pip install segmentation-models-pytorch"):
        build(configure("pspnet_cityscapes"))
    assert call("models", "pspnet*") == 0
    assert "?: not installed; pip install segmentation-models-pytorch" in capsys.readouterr().out
