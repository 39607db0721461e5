"""Saving and loading: exact, and never half."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

import mdeq
from tests.test_models import tiny


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tiny(dropout=0.1, backward={"mode": "phantom", "steps": 2}).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_round_trip_is_exact(tmp_path: Path) -> None:
    model = tiny(tasks={"classification": 3, "segmentation": 4}, solver={"solver": "anderson"})
    images = torch.randn(2, 3, 16, 16)
    model(images)  # moves the batch statistics
    model.eval().save_pretrained(tmp_path)
    again = mdeq.load(tmp_path)
    assert again.config == model.config
    assert not again.training
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    expected, logits = model(images), again(images)
    assert all(torch.equal(logits[task], expected[task]) for task in expected)


def test_precision_survives(tmp_path: Path) -> None:
    model = tiny().double().eval()
    model.save_pretrained(tmp_path)
    images = torch.randn(1, 3, 8, 8).double()
    assert torch.equal(mdeq.load(tmp_path)(images), model(images))


def test_from_pretrained_is_as_strict(saved: Path) -> None:
    model = mdeq.MDEQ.from_pretrained(saved)
    assert model.config == mdeq.load(saved).config
    weights = safetensors.torch.load_file(saved / "model.safetensors")
    del weights["stem.conv1.weight"]
    safetensors.torch.save_file(weights, saved / "model.safetensors")
    with pytest.raises(ValueError, match="1 missing"):
        mdeq.MDEQ.from_pretrained(saved)


def test_training_and_evaluation_round_trip() -> None:
    model = tiny(dropout=0.3).eval()
    images = torch.randn(2, 3, 8, 8)
    before = model(images)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model.train().eval()
    assert torch.equal(model(images), before)
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())


def rewrite(file: Path, change: dict[str, Tensor | None]) -> None:
    weights = safetensors.torch.load_file(file)
    for name, value in change.items():
        if value is None:
            del weights[name]
        else:
            weights[name] = value
    safetensors.torch.save_file(weights, file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stem.conv1.weight": None}, r"1 missing \(stem.conv1.weight\)"),
        ({"strange": torch.zeros(1)}, r"1 unexpected \(strange\)"),
        (
            {"stem.conv1.weight": torch.zeros(4, 3, 3, 3, dtype=torch.int32)},
            r"1 of another kind of number \(stem.conv1.weight torch.int32\)",
        ),
        (
            {"stem.conv1.weight": torch.zeros(4, 1, 3, 3)},
            r"1 of another shape \(stem.conv1.weight \(4, 1, 3, 3\) instead of \(4, 3, 3, 3\)\)",
        ),
    ],
)
def test_weights_that_do_not_fit(
    saved: Path, change: dict[str, Tensor | None], message: str
) -> None:
    rewrite(saved / "model.safetensors", change)
    with pytest.raises(ValueError, match=message):
        mdeq.load(saved)


def test_files_that_are_not_what_they_should_be(saved: Path, tmp_path: Path) -> None:
    file = saved / "model.safetensors"
    whole = file.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:4], b"", b"not a safetensors file at all"):
        file.write_bytes(broken)
        with pytest.raises(ValueError, match="no safetensors file, or is cut short"):
            mdeq.load(saved)
    torch.save({"weights": torch.zeros(1)}, file)
    with pytest.raises(ValueError, match="no safetensors file"):
        mdeq.load(saved)
    file.unlink()
    with pytest.raises(ValueError, match="there is no file"):
        mdeq.load(saved)
    with pytest.raises(ValueError, match="there is no run or model"):
        mdeq.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="folder is None; expected the path"):
        mdeq.load(None)


def test_the_model_card_says_how_to_load(saved: Path) -> None:
    card = (saved / "README.md").read_text()
    assert "mdeq.load(folder)" in card
    assert "More Information Needed" not in card


def test_configurations_that_are_not_what_they_should_be(saved: Path) -> None:
    file = saved / "config.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps({**values, "depth": 5}))
    with pytest.raises(ValueError, match="unknown field of the model 'depth'"):
        mdeq.load(saved)
    file.write_text("{}")
    with pytest.raises(ValueError, match="has no channels"):
        mdeq.load(saved)
    file.write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        mdeq.load(saved)
    file.write_text("[1]")
    with pytest.raises(ValueError, match="holds a list"):
        mdeq.load(saved)
    file.unlink()
    with pytest.raises(ValueError, match=r"has no config\.json"):
        mdeq.load(saved)
