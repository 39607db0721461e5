"""The trained weights of the package: they work by name, and predict what they did."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import mdeq
from mdeq.engine import open_bundle, predict
from mdeq.models import SHIPPED, shipped_folder
from mdeq.reproduce.images import picture
from tests.commands import call

PICTURES = Path(__file__).parent / "pictures"
STREETS = picture("camvid")


@pytest.mark.parametrize("name", SHIPPED)
def test_by_the_name_of_the_preset_it_is_the_same_model(name: str) -> None:
    torch.manual_seed(0)
    images = torch.randn(1, 3, 64, 64)
    loaded = mdeq.load(name)
    created = mdeq.create_model(SHIPPED[name], pretrained=True)
    assert created.config == loaded.config
    with torch.no_grad():
        assert torch.equal(created(images), loaded(images))
    assert mdeq.create_model(SHIPPED[name], pretrained=True, dropout=0.5).config.dropout == 0.5
    with pytest.raises(ValueError, match="does not fit this model"):
        mdeq.create_model(SHIPPED[name], pretrained=True, num_classes=3)


@pytest.mark.parametrize("name", SHIPPED)
def test_it_knows_no_place_but_the_package(name: str) -> None:
    assert [part.data for part in open_bundle(name).parts] == [None]
    card = (shipped_folder(name) / "README.md").read_text()
    for word in ("recipe", "seed", "commit", "licence", "residual"):
        assert word in card


def test_camvid_predicts_a_street_as_when_it_was_shipped() -> None:
    found = predict(open_bundle("camvid"), STREETS / "val" / "street.jpg")
    before = torch.from_numpy(np.array(Image.open(PICTURES / "street-predicted.png")))
    # Other machines round otherwise; of pixels at borders a few may change sides.
    assert (found.mask == before).float().mean() > 0.995
    truth = torch.from_numpy(np.array(Image.open(STREETS / "valannot" / "street.png")))
    assert (found.mask == truth)[truth != 11].float().mean() > 0.85


def cifar10_test_images() -> Tensor:
    """Forty of them, four of every class, from the sheet that they ship on."""
    sheet = torch.from_numpy(np.array(Image.open(picture("cifar10.png"))))
    tiles = sheet.unfold(0, 32, 32).unfold(1, 32, 32)  # (5, 8, 3, 32, 32)
    return tiles.flatten(0, 1)


def test_cifar10_says_what_it_said_when_it_was_shipped() -> None:
    known = json.loads((PICTURES / "cifar10.json").read_text())
    bundle = open_bundle("cifar10")
    images = bundle.parts[0].source.normalise(cifar10_test_images(), torch.float32)
    found: list[mdeq.Solution] = []
    with torch.no_grad():
        logits = bundle.model(images, on_equilibrium=lambda e: found.append(e.solution))
        alone = torch.cat([bundle.model(image[None]) for image in images])
    # Other machines round otherwise, and may stop a solve one evaluation sooner or later.
    torch.testing.assert_close(logits, torch.tensor(known["logits"]), rtol=0, atol=0.1)
    torch.testing.assert_close(alone, logits, rtol=0, atol=0.1)
    assert found[0].converged.float().mean() > 0.9
    assert (logits.argmax(dim=1) == torch.tensor(known["label"])).float().mean() > 0.7


def test_cifar10_names_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "answer.json"
    assert call("predict", "cifar10", PICTURES / "frog.png", "--json", file) == 0
    (answer,) = json.loads(file.read_text())["images"]
    assert answer["classification"][0]["class"] == "frog"
    assert "frog.png: frog " in capsys.readouterr().out


def test_a_folder_of_the_same_name_is_not_mistaken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "camvid" / "train").mkdir(parents=True)  # data: no model, so no mistake
    assert mdeq.load("camvid").config.tasks == {"segmentation": 11}
    mdeq.load("camvid").save_pretrained("camvid")
    with pytest.raises(ValueError, match=r"say \./camvid for the folder"):
        mdeq.load("camvid")
    assert mdeq.load("./camvid").config.tasks == {"segmentation": 11}
    assert call("predict", "camvid", STREETS / "val" / "street.jpg") == 2
    assert "say ./camvid for the folder" in capsys.readouterr().err


def test_another_run_begins_with_its_backbone(tmp_path: Path) -> None:
    shapes = [
        "--model.name", "fast:mdeq_camvid", "--model.channels", "[24, 48, 96, 128]",
        "--model.head_channels", "[8, 16, 32, 64]", "--model.downsamplings", 2,
        "--dataset.train", 2, "--dataset.val", 1, "--dataset.test", 1, "--batch_size", 2,
        "--length", "1 steps", "--optimiser.warmup", "0 steps",
    ]  # fmt: skip
    assert call("train", "--init", "camvid", "--output", tmp_path / "run", *shapes) == 0
    assert "init: camvid" in (tmp_path / "run" / "recipe.yaml").read_text()


def test_it_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("models", "mdeq_camvid", "--json", tmp_path / "models.json") == 0
    assert "camvid (mdeq_camvid)" in capsys.readouterr().out
    assert json.loads((tmp_path / "models.json").read_text())["shipped"] == {
        "camvid": "mdeq_camvid"
    }
