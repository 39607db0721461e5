"""Several processes are one process with the whole batch."""

import json
from pathlib import Path

import pytest
import torch

from tests.commands import TINY, assert_same_weights, call, finish, records, state, train

# One plain step: the change of the weights is the gradient.
GRADIENT = [
    "--precision", "float64", "--model.dropout", "0", "--optimiser.name", "sgd",
    "--optimiser.lr", "1", "--optimiser.momentum", "0", "--optimiser.clip", "null",
    "--length", "1 steps", "--evaluation.every", "1 steps",
    "--model.backward", "{mode: implicit, max_steps: 20, tol: 1.0e-9}",
]  # fmt: skip


def test_two_processes_give_the_gradient_of_one(tmp_path: Path) -> None:
    assert call("train", "--output", tmp_path / "one", *TINY, *GRADIENT) == 0
    one = state(tmp_path / "one")["model"]
    two = state(train(tmp_path, "two", *GRADIENT, processes=2))["model"]
    for name, value in one.items():
        assert torch.allclose(value, two[name], rtol=1e-6, atol=1e-6), name


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes, evaluated on a number of images that they cannot share evenly."""
    options = ["--workers", "1", "--ema", "0.9", "--dataset.val", "11", "--dataset.test", "9"]
    return train(tmp_path_factory.mktemp("together"), "run", *options, processes=2)


def test_two_processes_count_uneven_data_once(together: Path, tmp_path: Path) -> None:
    evaluations = [record["val"] for record in records(together) if "val" in record]
    assert [figures["examples"] for figures in evaluations] == [11] * 3
    alone = tmp_path / "alone.json"
    assert call("evaluate", together, "--split", "val", "--json", alone) == 0
    figures = json.loads(alone.read_text())
    for task in ("classification", "segmentation"):
        assert figures[task] == evaluations[-1][task]
    assert figures["loss"] == pytest.approx(evaluations[-1]["loss"], rel=1e-5)


def test_two_processes_resume_exactly(together: Path, tmp_path: Path) -> None:
    # As if everything after the checkpoint before the last had been lost.
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.yaml").write_bytes((together / "recipe.yaml").read_bytes())
    (run / "last.ckpt").write_bytes((together / "previous.ckpt").read_bytes())
    assert state(run)["progress"]["step"] == 8
    status, said = finish("train", "--resume", "run", cwd=tmp_path, processes=2)
    assert status == 0, said
    assert_same_weights(together, run)


def test_a_batch_that_processes_cannot_share_is_refused(tmp_path: Path) -> None:
    status, said = finish("train", *TINY, "--batch_size", "7", cwd=tmp_path, processes=2)
    assert status != 0
    assert "batch_size is 7; expected a multiple of 2 processes" in said
