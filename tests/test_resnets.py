"""The explicit networks: the paper's sizes, under the same trainer as the equilibrium models."""

import json
from pathlib import Path

import pytest
import torch

import mdeq
from mdeq.models import NETWORKS, ResNetConfig, configure
from tests.commands import assert_same_weights, call, finish, records

RECIPE = """
model: {name: resnet18_cifar10_small, channels: [8, 8, 8, 8], blocks: [1, 1, 1, 1]}
dataset: {name: shapes, image_size: 16, train: 64, val: 10, test: 10}
tasks: {classification: 1}
length: 4 steps
batch_size: 8
evaluation: {every: 2 steps}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    file = tmp_path / "resnet.yaml"
    file.write_text(RECIPE)
    return file


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("resnet18_cifar10_small", 170_000),
        ("resnet18_cifar10", 10_000_000),
        ("resnet101_cifar10", 42_500_000),  # torchvision's, with ten classes and a 3x3 stem
    ],
)
def test_sizes_are_the_published_ones_within_5_percent(name: str, published: int) -> None:
    with torch.device("meta"):
        parameters = sum(p.numel() for p in mdeq.create_model(name).parameters())
    assert parameters == pytest.approx(published, rel=0.05)


def test_the_stem_keeps_the_size_of_the_image() -> None:
    model = mdeq.create_model("resnet18_cifar10_small", num_classes=7).eval()
    seen = []
    model.layers.layer1.register_forward_hook(lambda module, args, out: seen.append(args[0].shape))
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 7)
    assert seen == [(2, 8, 32, 32)]


def test_it_can_be_saved_and_loaded(tmp_path: Path) -> None:
    model = mdeq.create_model("resnet18_cifar10_small").eval()
    model.save_pretrained(tmp_path)
    again = mdeq.load(tmp_path)
    images = torch.randn(2, 3, 32, 32)
    assert again.config == model.config
    torch.testing.assert_close(again(images), model(images), rtol=0, atol=0)


@pytest.mark.parametrize(
    "name", [name for name, c in NETWORKS.items() if isinstance(c, ResNetConfig)]
)
def test_configurations_survive_plain_values(name: str) -> None:
    assert ResNetConfig.from_dict(NETWORKS[name].to_dict()) == NETWORKS[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blocks": (1, 2)}, "expected a number for each of four stages"),
        ({"channels": (4, 8, 8, 8)}, "expected 8 at least"),
        ({"channels": (9, 9, 9, 9)}, "and an even first"),
        ({"tasks": {"segmentation": 3}}, "this network has one task: expected"),
        ({"dropout": 0.1}, "unknown field of the model 'dropout'"),
    ],
)
def test_wrong_fields(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        configure("resnet18_cifar10", **change)


def test_it_trains_evaluates_and_predicts_without_an_equilibrium(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, figures = tmp_path / "run", tmp_path / "figures.json"
    assert call("train", recipe, "--output", run) == 0
    assert call("evaluate", run, "--json", figures) == 0
    assert call("predict", run, run / "samples" / "0.png", "--json", tmp_path / "p.json") == 0
    assert "residual" not in capsys.readouterr().out
    assert "equilibrium" not in json.loads(figures.read_text())
    assert "classification" in json.loads((tmp_path / "p.json").read_text())["images"][0]
    assert [r["step"] for r in records(run) if "val" in r] == [2, 4]
    assert (run / "summary.png").stat().st_size > 0


def test_it_trains_in_two_processes(recipe: Path, tmp_path: Path) -> None:
    arguments = ["train", recipe, "--output", "run", "--length", "1 steps"]
    status, said = finish(*arguments, cwd=tmp_path, processes=2)
    assert status == 0, said
    assert "Grad strides" not in said


def test_resumed_it_ends_with_the_same_weights(recipe: Path, tmp_path: Path) -> None:
    whole, half = tmp_path / "whole", tmp_path / "half"
    for run in (whole, half):
        assert call("train", recipe, "--output", run, "--ema", 0.9, "--save_minutes", 0) == 0
    (half / "last.ckpt").unlink()  # leaves the one before
    assert call("train", "--resume", half) == 0
    assert_same_weights(whole, half)


def test_divergence_is_described_without_residuals(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--output", tmp_path / "run", "--optimiser.lr", 1e30, "--length", "10 steps"]
    assert call("train", recipe, *arguments) == 1
    said = capsys.readouterr().err
    assert "Training samples of shapes in this batch" in said
    assert "Try a lower optimiser.lr or optimiser.clip 1." in said


def test_what_only_equilibria_have_is_refused(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("train", recipe, "--output", tmp_path / "run") == 0
    assert call("evaluate", tmp_path / "run", "--solver.max_steps", 3) == 2
    assert "this model has no solver" in capsys.readouterr().err
    for option, value, message in [
        ("--softplus.length", "1 epochs", 'say --softplus.length "0 steps"'),
        ("--jacobian_penalty", "1", "has no equilibrium; leave it out"),
        ("--model.name", "fast:resnet18_cifar10", "so there is no fast:resnet18_cifar10"),
    ]:
        assert call("train", recipe, option, value) == 2
        assert message in capsys.readouterr().err
