"""Losses and scores against hand-made ones."""

import pytest
import torch
from torch import Tensor

from mdeq.engine.tasks import IGNORED, Scores, batch_accuracy, by_task, headline, task_loss
from mdeq.solvers import Solution

CLASSES = {"classification": [*"abcdef"], "segmentation": ["ground", "x", "y", "z"]}


def solution(samples: int) -> Solution[Tensor]:
    return Solution(
        z=torch.zeros(samples, 1),
        residual=torch.arange(float(samples)),
        converged=torch.arange(samples) < 2,
        steps=torch.full((samples,), 7),
        trace=torch.zeros(1, samples),
    )


def batch(samples: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    logits = {
        "classification": torch.randn(samples, 6),
        "segmentation": torch.randn(samples, 4, 5, 3),
    }
    mask = torch.randint(3, (samples, 5, 3))  # class 3 is never there, but may be predicted
    mask[:, 0] = IGNORED
    return logits, {
        "image": torch.zeros(samples, 3, 5, 3),
        "classification": torch.randint(6, (samples,)),
        "segmentation": mask,
    }


def test_scores_of_uneven_batches_are_those_of_all_their_samples() -> None:
    torch.manual_seed(0)
    scores = Scores(CLASSES, torch.device("cpu"))
    parts = [batch(n) for n in (4, 4, 1)]
    for logits, targets in parts:
        scores.update(logits, targets, solution(len(targets["image"])))
    figures = scores.compute()

    labels = torch.cat([t["classification"] for _, t in parts])
    ranked = torch.cat([x["classification"] for x, _ in parts]).argsort(dim=1, descending=True)
    for k in (1, 5):
        right = (ranked[:, :k] == labels[:, None]).any(dim=1).float().mean()
        assert figures["classification"][f"top{k}"] == pytest.approx(right.item())

    truth = torch.cat([t["segmentation"] for _, t in parts])
    guess = torch.cat([x["segmentation"] for x, _ in parts]).argmax(dim=1)
    seen = truth != IGNORED
    iou = [
        (((truth == c) & (guess == c) & seen).sum() / (((truth == c) | (guess == c)) & seen).sum())
        for c in range(4)
    ]
    assert figures["segmentation"]["miou"] == pytest.approx(torch.stack(iou).mean().item())
    assert list(figures["segmentation"]["iou"]) == CLASSES["segmentation"]
    assert figures["segmentation"]["iou"]["z"] == 0
    everything = torch.cat([x["classification"] for x, _ in parts])
    pixels = torch.cat([x["segmentation"] for x, _ in parts])
    loss = torch.nn.functional.cross_entropy(everything, labels)
    loss += torch.nn.functional.cross_entropy(pixels, truth, ignore_index=IGNORED)
    assert figures["loss"] == pytest.approx(loss.item(), rel=1e-5)
    assert figures["equilibrium"]["steps"] == 7
    assert figures["equilibrium"]["converged"] == pytest.approx(5 / 9)


def test_a_class_that_never_occurs_does_not_count() -> None:
    scores = Scores({"segmentation": ["a", "b", "never"]}, torch.device("cpu"))
    mask = torch.tensor([[[0, 0, 1, IGNORED]]])
    logits = torch.nn.functional.one_hot(torch.tensor([[[0, 1, 1, 2]]]), 3).movedim(3, 1).float()
    scores.update({"segmentation": logits}, {"image": mask, "segmentation": mask}, solution(1))
    figures = scores.compute()["segmentation"]
    assert figures["iou"] == {"a": 0.5, "b": 0.5, "never": None}
    assert figures["miou"] == 0.5


def test_ignored_pixels_have_no_part_in_loss_and_accuracy() -> None:
    torch.manual_seed(0)
    logits, mask = torch.randn(2, 4, 3, 3), torch.randint(4, (2, 3, 3))
    mask[0] = IGNORED
    assert task_loss("segmentation", logits, mask) == task_loss(
        "segmentation", logits[1:], mask[1:]
    )
    assert batch_accuracy("segmentation", logits, mask) == batch_accuracy(
        "segmentation", logits[1:], mask[1:]
    )


def test_label_smoothing_is_that_of_its_definition() -> None:
    torch.manual_seed(0)
    logits, label = torch.randn(3, 5), torch.tensor([0, 4, 2])
    log = logits.log_softmax(dim=1)
    expected = -(0.9 * log[torch.arange(3), label] + 0.1 * log.mean(dim=1)).mean()
    assert torch.allclose(task_loss("classification", logits, label, 0.1), expected)


def test_a_single_task_comes_bare_and_several_come_named() -> None:
    logits = torch.zeros(1, 2, dtype=torch.bfloat16)
    assert by_task(logits, {"segmentation": []})["segmentation"].dtype == torch.float32
    assert set(by_task({"classification": logits, "segmentation": logits}, CLASSES)) == {*CLASSES}


def test_the_headline_is_the_mean_over_tasks() -> None:
    assert headline({"classification": {"top1": 0.4}, "segmentation": {"miou": 0.8}}) == (
        pytest.approx(0.6)
    )
