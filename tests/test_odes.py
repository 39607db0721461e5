"""Neural ODEs: flows with a closed form, the paper's sizes, and the same trainer."""

import json
import math
from pathlib import Path

import pytest
import torch

import mdeq
from mdeq.models import NETWORKS, NeuralODE, NeuralODEConfig, StiffError, configure
from tests.commands import call

RECIPE = """
model: {name: anode_cifar10, filters: 4, augment: 2, image_size: 16, tol: 0.01}
dataset: {name: shapes, image_size: 16, train: 16, val: 6, test: 6}
tasks: {classification: 1}
length: 2 steps
batch_size: 8
"""


@pytest.mark.parametrize("name", ["node_cifar10", "anode_cifar10"])
def test_sizes_are_the_published_ones_within_5_percent(name: str) -> None:
    with torch.device("meta"):
        parameters = sum(p.numel() for p in mdeq.create_model(name).parameters())
    assert parameters == pytest.approx(172_000, rel=0.05)


def growing() -> NeuralODE:
    """A model whose f is z itself where z is positive, so that z(t) = z(0) e^t."""
    config = NeuralODEConfig(filters=5, augment=2, image_size=4, tol=1e-9)
    model = NeuralODE(config).double()
    with torch.no_grad():
        for conv in (model.f.conv1, model.f.conv2, model.f.conv3):
            conv.weight.zero_()
            conv.bias.zero_()
            middle = conv.kernel_size[0] // 2
            for channel in range(5):  # the first one is the time
                conv.weight[channel, channel + 1, middle, middle] = 1
    return model


def test_the_flow_is_that_of_the_closed_form() -> None:
    model = growing()
    seen = []
    model.classifier.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    images = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    model(images)
    z = seen[0].view(2, 5, 4, 4)
    torch.testing.assert_close(z[:, :3], math.e * images, rtol=1e-7, atol=0)
    assert (z[:, 3:] == 0).all()  # what began as zeros


def test_so_is_its_gradient() -> None:
    model = growing()
    images = torch.rand(2, 3, 4, 4, dtype=torch.float64, requires_grad=True)
    model(images).sum().backward()
    weights = model.classifier.weight.sum(dim=0).view(5, 4, 4)[:3]
    torch.testing.assert_close(images.grad[0], math.e * weights.detach(), rtol=1e-7, atol=0)


@pytest.mark.parametrize("name", ["node_cifar10", "anode_cifar10"])
def test_configurations_survive_plain_values(name: str) -> None:
    assert NeuralODEConfig.from_dict(NETWORKS[name].to_dict()) == NETWORKS[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tasks": {"segmentation": 3}}, "this network has one task"),
        ({"augment": -1}, "augment is -1"),
        ({"augment": 2.5}, "augment is 2.5; expected a whole number"),
        ({"channels": 3}, "unknown field of the model 'channels'"),
    ],
)
def test_wrong_fields(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        configure("node_cifar10", **change)


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 32x32 pixels"):
        mdeq.create_model("node_cifar10", filters=2)(torch.randn(1, 3, 16, 16))


def test_a_flow_that_cannot_be_followed_is_an_error_in_words() -> None:
    model = growing()
    with pytest.raises(StiffError, match="lower the learning rate"):
        model(torch.full((1, 3, 4, 4), math.nan, dtype=torch.float64))
    logits = model(torch.rand(1, 3, 4, 4, dtype=torch.float64))
    with pytest.raises(StiffError, match="lower the learning rate"):
        logits.backward(torch.full_like(logits, math.nan))


def test_it_trains_evaluates_and_loads(tmp_path: Path) -> None:
    file, run = tmp_path / "ode.yaml", tmp_path / "run"
    file.write_text(RECIPE)
    assert call("train", file, "--output", run) == 0
    assert call("evaluate", run, "--json", tmp_path / "figures.json") == 0
    assert "equilibrium" not in json.loads((tmp_path / "figures.json").read_text())
    assert mdeq.load(run / "last").config.filters == 4
