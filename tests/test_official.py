"""The authors' released weights: read key for key, computed as their code computes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import mdeq
from tests.released_code import ReleasedNet

STEPS = {"mode": "unrolled", "steps": 4}


def tiny_net() -> ReleasedNet:
    return ReleasedNet([24, 24], head=[8, 16]).eval()


def test_the_tiny_cifar_model() -> None:
    theirs = tiny_net()
    ours = mdeq.import_official(theirs.state_dict(), "official_cifar10_tiny")
    assert sum(p.numel() for p in ours.parameters()) == 158_890
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(
            ours(images, backward=STEPS), theirs(images, 4), rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("downsamplings", [0, 2])
@pytest.mark.parametrize("affine", [True, False])
def test_widths_and_options_are_read_off_the_checkpoint(downsamplings: int, affine: bool) -> None:
    """Four scales with a stage0, other widths, expansion and classes than the name says."""
    name = "official_imagenet_small" if downsamplings else "official_cifar10_large"
    theirs = ReleasedNet(
        [8, 16, 8, 24],
        expansion=2,
        downsamplings=downsamplings,
        affine=affine,
        head=[2, 4, 2, 3],
        width=20,
        classes=11,
    ).eval()
    ours = mdeq.import_official(theirs.state_dict(), name)
    assert ours.config.channels == (8, 16, 8, 24)
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(
            ours(images, backward=STEPS), theirs(images, 4), rtol=1e-4, atol=1e-4
        )


def test_segmentation() -> None:
    theirs = ReleasedNet(
        [8, 16, 8, 24], expansion=2, downsamplings=2, affine=True, classes=19
    ).eval()
    ours = mdeq.import_official(theirs.state_dict(), "official_cityscapes_small")
    images = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        logits = ours(images, backward=STEPS)
        quarter = theirs(images, 4)
    assert logits.shape == (1, 19, 64, 96)
    expected = F.interpolate(quarter, (64, 96), mode="bilinear")
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def with_copies(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """As released: everything under `model.`, the layer in three more copies."""
    out = {f"model.{name}": value for name, value in state.items()}
    for name, value in state.items():
        if name.startswith("fullstage."):
            layer = name.removeprefix("fullstage.")
            for copy in ("fullstage_copy.", "deq.func.", "deq.func_copy."):
                out[f"model.{copy}{layer}"] = value
    return out


def test_prefixes_and_copies_are_ignored() -> None:
    state = tiny_net().state_dict()
    plain = mdeq.import_official(state, "official_cifar10_tiny").state_dict()
    wrapped = mdeq.import_official(with_copies(state), "official_cifar10_tiny").state_dict()
    assert plain.keys() == wrapped.keys()
    assert all(torch.equal(plain[name], wrapped[name]) for name in plain)


def test_training_checkpoints_are_read(tmp_path: Path) -> None:
    """With the optimiser, a score, the loss's own weights, and a data-parallel prefix."""
    state = {f"module.model.{name}": value for name, value in tiny_net().state_dict().items()}
    state["module.loss.criterion.weight"] = torch.ones(10)
    checkpoint = {
        "epoch": 7,
        "state_dict": state,
        "best_mIoU": np.float64(0.5),
        "optimizer": {"state": {}, "param_groups": [{"lr": 0.1}]},
    }
    torch.save(checkpoint, tmp_path / "checkpoint.pth.tar")
    mdeq.import_official(tmp_path / "checkpoint.pth.tar", "official_cifar10_tiny")


def test_files_of_old_versions_of_torch_have_no_counters() -> None:
    state = tiny_net().state_dict()
    old = {name: value for name, value in state.items() if "num_batches_tracked" not in name}
    model = mdeq.import_official(old, "official_cifar10_tiny")
    assert model.stem.norm1.num_batches_tracked == 0


def test_segmentation_has_its_own_batch_norm_momentum() -> None:
    assert mdeq.models.PRESETS["official_cityscapes_small"].norm_momentum == 0.01
    assert mdeq.models.PRESETS["official_imagenet_small"].norm_momentum == 0.1


def test_files_of_tensors_are_read(tmp_path: Path) -> None:
    torch.save(tiny_net().state_dict(), tmp_path / "tiny.pkl")
    assert mdeq.import_official(tmp_path / "tiny.pkl", "official_cifar10_tiny").config.channels == (
        24,
        24,
    )


class Malicious:
    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("ran"),))


def test_files_that_would_run_code_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"x": Malicious()}, "bad.pkl")
    with pytest.raises(ValueError, match="cannot be read as a checkpoint of tensors alone"):
        mdeq.import_official("bad.pkl", "official_cifar10_tiny")
    assert not Path("ran").exists()


def test_what_does_not_match_is_an_error(tmp_path: Path) -> None:
    state = tiny_net().state_dict()
    name = "official_cifar10_tiny"
    with pytest.raises(ValueError, match=r"1 keys are not known \(extra\.weight\)"):
        mdeq.import_official({**state, "extra.weight": torch.zeros(1)}, name)
    with pytest.raises(ValueError, match="1 missing"):
        mdeq.import_official({k: v for k, v in state.items() if k != "classifier.bias"}, name)
    with pytest.raises(ValueError, match="missing"):
        mdeq.import_official({k: v for k, v in state.items() if "branches" not in k}, name)
    with pytest.raises(ValueError, match="of another shape"):
        mdeq.import_official({**state, "downsample.3.weight": torch.zeros(24, 24, 1, 1)}, name)
    with pytest.raises(ValueError, match="not a checkpoint of the released code"):
        mdeq.import_official({}, name)
    with pytest.raises(ValueError, match="has a int as state_dict; expected a mapping"):
        mdeq.import_official({"state_dict": 3}, name)
    with pytest.raises(ValueError, match=r"keys are not known .* each once"):
        mdeq.import_official({**state, "model.classifier.bias": state["classifier.bias"]}, name)
    with pytest.raises(ValueError, match="is missing, or no weight"):
        mdeq.import_official({**state, "downsample.0.weight": torch.zeros(3)}, name)
    with pytest.raises(ValueError, match="unknown official model 'mdeq_cifar10'"):
        mdeq.import_official(state, "mdeq_cifar10")
    with pytest.raises(ValueError, match="there is no file"):
        mdeq.import_official(tmp_path / "nothing.pkl", name)
    with pytest.raises(ValueError, match="source is None; expected a file or a state dict"):
        mdeq.import_official(None, name)
    (tmp_path / "text.pkl").write_text("hello")
    with pytest.raises(ValueError, match="cannot be read"):
        mdeq.import_official(tmp_path / "text.pkl", name)
