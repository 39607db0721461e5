"""Losses and scores against hand-made ones."""

from typing import Any

import pytest
import torch
from torch import Tensor

from mdeq.data import IGNORED
from mdeq.engine.losses import pixel_loss, task_loss, training_losses
from mdeq.engine.recipe import Recipe
from mdeq.engine.sections import PixelsConfig
from mdeq.engine.tasks import Scores, batch_accuracy, by_task, headline
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
        scores.update(logits, targets, [solution(len(targets["image"]))])
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
    scores.update({"segmentation": logits}, {"image": mask, "segmentation": mask}, [solution(1)])
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
    loss = training_losses(recipe(label_smoothing=0.1), {"classification": list("abcde")})
    assert torch.allclose(loss["classification"](logits, label), expected)


def recipe(**fields: Any) -> Recipe:
    """A recipe of which only the loss matters."""
    return Recipe(model={"name": "mdeq_cifar10_small"}, dataset={"name": "shapes"}, **fields)


def test_class_weights_are_those_of_pytorch() -> None:
    torch.manual_seed(0)
    logits, mask = torch.randn(2, 3, 4, 4), torch.randint(3, (2, 4, 4))
    mask[0, 0] = IGNORED
    settings = recipe(pixels=PixelsConfig(class_weights={"pole": 4.0}))
    loss = training_losses(settings, {"segmentation": ["sky", "pole", "road"]})["segmentation"]
    expected = torch.nn.functional.cross_entropy(
        logits, mask, weight=torch.tensor([1.0, 4.0, 1.0]), ignore_index=IGNORED
    )
    torch.testing.assert_close(loss(logits, mask), expected)


def test_a_weight_for_no_class_is_a_mistake() -> None:
    settings = recipe(pixels=PixelsConfig(class_weights={"poles": 4.0}))
    with pytest.raises(ValueError, match="did you mean 'pole'"):
        training_losses(settings, {"segmentation": ["sky", "pole"]})


@pytest.mark.parametrize(
    ("hard_below", "hard_share", "counted"),
    [(0.5, 0.0, [0.1, 0.4]), (0.05, 0.0, [0.1]), (0.05, 0.6, [0.1, 0.4, 0.7]), (1.0, 0, None)],
)
def test_hard_pixels_count_and_a_share_at_least(
    hard_below: float, hard_share: float, counted: list[float] | None
) -> None:
    probability = torch.tensor([0.7, 0.1, 0.9, 0.4, 0.01])
    logits = torch.stack([probability, 1 - probability]).log()[None, :, None]
    mask = torch.tensor([[[0, 0, 0, 0, IGNORED]]])
    loss = pixel_loss(logits, mask, hard_below=hard_below, hard_share=hard_share)
    expected = -torch.tensor(counted or [0.7, 0.1, 0.9, 0.4]).log().mean()
    torch.testing.assert_close(loss, expected)


def test_a_mask_without_a_class_has_no_loss() -> None:
    logits = torch.randn(1, 3, 2, 2, requires_grad=True)
    loss = pixel_loss(logits, torch.full((1, 2, 2), IGNORED), hard_below=0.5)
    loss.backward()
    assert loss == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_a_single_task_comes_bare_and_several_come_named() -> None:
    logits = torch.zeros(1, 2, dtype=torch.bfloat16)
    assert by_task(logits, {"segmentation": []})["segmentation"].dtype == torch.float32
    assert set(by_task({"classification": logits, "segmentation": logits}, CLASSES)) == {*CLASSES}


def test_the_headline_is_the_mean_over_tasks() -> None:
    assert headline({"classification": {"top1": 0.4}, "segmentation": {"miou": 0.8}}) == (
        pytest.approx(0.6)
    )
