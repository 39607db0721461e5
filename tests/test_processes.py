"""Several processes are one process with the whole batch."""

import json
from pathlib import Path

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


def test_two_processes_resume_exactly_and_count_uneven_data_once(tmp_path: Path) -> None:
    exact = ["--workers", "1", "--ema", "0.9", "--dataset.val", "11", "--dataset.test", "9"]
    whole = train(tmp_path, "whole", *exact, processes=2)
    assert [r["val"]["examples"] for r in records(whole) if "val" in r] == [11] * 3
    run = tmp_path / "run"
    # Go back to the checkpoint before the last, as if the rest had been lost.
    run.mkdir()
    (run / "recipe.yaml").write_bytes((whole / "recipe.yaml").read_bytes())
    (run / "last.ckpt").write_bytes((whole / "previous.ckpt").read_bytes())
    assert state(run)["progress"]["step"] == 8
    status, said = finish("train", "--resume", "run", cwd=tmp_path, processes=2)
    assert status == 0, said
    assert_same_weights(whole, run)
    one = tmp_path / "one.json"
    assert call("evaluate", whole, "--split", "val", "--json", one) == 0
    figures = json.loads(one.read_text())
    together = [r["val"] for r in records(whole) if "val" in r][-1]
    for task in ("classification", "segmentation"):
        assert figures[task] == together[task]


def test_a_batch_that_processes_cannot_share_is_refused(tmp_path: Path) -> None:
    status, said = finish("train", *TINY, "--batch_size", "7", cwd=tmp_path, processes=2)
    assert status != 0
    assert "batch_size is 7; expected a multiple of 2 processes" in said
