"""The backbone of one model as the beginning of another: all of it, or an error."""

import json
from pathlib import Path

import pytest
import torch

import mdeq
from mdeq.models import transfer_backbone
from tests.commands import call, state
from tests.scenes import write_camvid
from tests.test_scenes import TINY


def model(task: str, **options: object) -> mdeq.MDEQ:
    """A tiny model of one task."""
    settings = {"channels": (4, 8), "groups": 2, "head_channels": (2, 2), "head_width": 8}
    return mdeq.create_model("mdeq_cifar10_small", tasks={task: 3}, **{**settings, **options})


def test_the_backbone_is_taken_over_and_the_heads_are_not() -> None:
    source, target = model("classification"), model("segmentation")
    head = target.heads["segmentation"].classifier.weight.clone()
    done = transfer_backbone(source, target, "it")
    for name, value in source.state_dict().items():
        if name in done.loaded:
            assert torch.equal(target.state_dict()[name], value)
    assert torch.equal(target.heads["segmentation"].classifier.weight, head)
    assert set(done.loaded) | set(done.left) == set(source.state_dict())
    assert set(done.loaded) | set(done.fresh) == set(target.state_dict())
    assert all(name.startswith("heads.classification.") for name in done.left)
    assert all(name.startswith("heads.segmentation.") for name in done.fresh)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": (4, 12)}, r'say --model.channels "\[4, 8\]" in place of \[4, 12\]'),
        (
            {"expansion": 2, "downsamplings": 1},
            'say --model.expansion "5" in place of 2, --model.downsamplings "0" in place of 1',
        ),
        ({"in_channels": 1}, r"of another shape \(stem.conv1.weight \(4, 3, 3, 3\) instead of"),
        ({"stem_projection": False}, r"unexpected \(stem\.conv3"),
    ],
)
def test_another_shape_is_an_error_and_changes_nothing(
    options: dict[str, object], message: str
) -> None:
    source, target = model("classification"), model("segmentation", **options)
    before = {name: value.clone() for name, value in target.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        transfer_backbone(source, target, "it")
    assert all(torch.equal(value, before[name]) for name, value in target.state_dict().items())


def test_what_no_shape_shows_has_to_be_the_same_too() -> None:
    source, target = model("classification"), model("segmentation", upsampling="nearest")
    with pytest.raises(ValueError, match=r'--model.upsampling "bilinear" in place of nearest'):
        transfer_backbone(source, target, "it")


def test_an_explicit_network_has_no_backbone() -> None:
    network = mdeq.create_model("resnet18_cifar10_small")
    with pytest.raises(ValueError, match="only equilibrium models have a backbone"):
        transfer_backbone(network, model("segmentation"), "it")


def test_a_run_begins_with_the_backbone_of_another_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_camvid(tmp_path / "data", {"train/0001TP": 2, "val/0016E5": 1})
    shapes = [
        "--model.channels", "[4, 8]", "--model.groups", "2", "--model.expansion", "1",
        "--model.head_channels", "[2, 2]", "--model.downsamplings", "2", "--dataset.train", "8",
        "--dataset.val", "4", "--dataset.test", "4", "--batch_size", "4", "--length", "2 steps",
        "--optimiser.warmup", "0 steps",
    ]  # fmt: skip
    assert call("train", "--output", tmp_path / "first", *shapes) == 0
    arguments = ["--data", tmp_path / "data", "--init", tmp_path / "first", *TINY]
    slow = ["--optimiser.lr", "1e-30", "--ema", "0.9", "--optimiser.warmup", "0 steps"]
    capsys.readouterr()
    assert call("train", "camvid", "--output", tmp_path / "second", *arguments, *slow) == 0
    assert "tensors of stem and f were loaded; " in capsys.readouterr().out
    assert state(tmp_path / "second", "previous.ckpt")["progress"]["step"] == 0
    first = state(tmp_path / "first")["model"]
    told = json.loads((tmp_path / "second/transfer.json").read_text())
    assert {*told["loaded"], *told["left"]} == {*first}

    def assert_taken_over() -> None:
        second = state(tmp_path / "second")
        for part in ("model", "ema"):
            for name, value in second[part].items():
                if name.startswith("f."):
                    assert torch.equal(value, first[name]), name

    assert_taken_over()
    for file in (tmp_path / "second").glob("*.ckpt"):  # as if killed before it saved anything
        file.unlink()
    assert call("train", "--resume", tmp_path / "second") == 0
    assert_taken_over()


def test_a_model_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("train", "--init", tmp_path / "nowhere", "--output", tmp_path / "run") == 2
    assert "there is no run or model" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
