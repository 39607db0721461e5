"""What the tasks of a run are judged by."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanMetric
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

from mdeq.data import IGNORED, Batch
from mdeq.engine.losses import task_loss
from mdeq.solvers import Solution

Logits = Mapping[str, Tensor]


def by_task(output: Any, tasks: Collection[str]) -> dict[str, Tensor]:
    """The logits of every task in full precision; a model with one task returns them bare."""
    logits = output if isinstance(output, Mapping) else {next(iter(tasks)): output}
    return {
        task: value if value.dtype == torch.float64 else value.float()
        for task, value in logits.items()
    }


def batch_accuracy(task: str, logits: Tensor, target: Tensor) -> Tensor:
    """The share of images or of pixels that are right."""
    counted = target != IGNORED if task == "segmentation" else torch.ones_like(target).bool()
    return ((logits.argmax(dim=1) == target) & counted).sum() / counted.sum().clamp(min=1)


class Scores:
    """The figures of an evaluation, over all batches and all processes."""

    def __init__(
        self,
        classes: Mapping[str, list[str]],
        device: torch.device,
        weights: Mapping[str, float] | None = None,
        *,
        solved: bool = True,
    ) -> None:
        self.classes, self.solved = classes, solved
        self.weights = weights or dict.fromkeys(classes, 1.0)
        count = {task: len(names) for task, names in classes.items()}
        self.losses = {task: MeanMetric(nan_strategy="disable").to(device) for task in classes}
        self.residual = MeanMetric(nan_strategy="disable").to(device)
        self.steps = MeanMetric(nan_strategy="disable").to(device)
        self.converged = MeanMetric(nan_strategy="disable").to(device)
        if "classification" in classes:
            self.top = {
                k: MulticlassAccuracy(
                    count["classification"], top_k=min(k, count["classification"]), average="micro"
                ).to(device)
                for k in (1, 5)
            }
        if "segmentation" in classes:
            self.confusion = MulticlassConfusionMatrix(
                count["segmentation"], ignore_index=IGNORED
            ).to(device)

    def update(self, logits: Logits, batch: Batch, solutions: Sequence[Solution[Any]] = ()) -> None:
        """Count a batch, and how it was solved: not at all, at once, or in parts."""
        size = len(batch["image"])
        for task in self.classes:
            target = batch[task]
            # Once for every image: without its check for NaN, MeanMetric ignores weights.
            self.losses[task].update(task_loss(task, logits[task], target).expand(size))
            if task == "classification":
                for metric in self.top.values():
                    metric.update(logits[task], target)
            else:
                self.confusion.update(logits[task].argmax(dim=1), target.long())
        for solution in solutions:
            self.residual.update(solution.residual)
            self.steps.update(solution.steps.float())
            self.converged.update(solution.converged.float())

    def compute(self) -> dict[str, Any]:
        """The figures by task, and how the solver did."""
        figures: dict[str, Any] = {
            "loss": sum(
                self.weights[task] * float(metric.compute()) for task, metric in self.losses.items()
            )
        }
        if "classification" in self.classes:
            figures["classification"] = {
                f"top{k}": float(metric.compute()) for k, metric in self.top.items()
            }
        if "segmentation" in self.classes:
            names = self.classes["segmentation"]
            figures["segmentation"] = segmentation_figures(self.confusion.compute(), names)
        if self.solved:
            figures["equilibrium"] = {
                "residual": float(self.residual.compute()),
                "steps": float(self.steps.compute()),
                "converged": float(self.converged.compute()),
            }
        return figures


def segmentation_figures(confusion: Tensor, names: Sequence[str]) -> dict[str, Any]:
    """Of counts (true class, predicted class) of pixels."""
    iou = intersection_over_union(confusion)
    return {
        "miou": float(iou.nanmean()),
        "pixel_accuracy": float(confusion.diagonal().sum() / confusion.sum()),
        "iou": {
            name: None if value.isnan() else float(value)
            for name, value in zip(names, iou, strict=True)
        },
        "confusion": confusion.tolist(),
    }


def intersection_over_union(confusion: Tensor) -> Tensor:
    """IoU of every class, from counts (true class, predicted class); NaN where it never occurs."""
    confusion = confusion.cpu().double()
    hits = confusion.diagonal()
    return hits / (confusion.sum(dim=0) + confusion.sum(dim=1) - hits)


def headline(figures: Mapping[str, Any]) -> float:
    """One number to compare evaluations of one run by: the mean over its tasks."""
    scores = []
    if "classification" in figures:
        scores.append(figures["classification"]["top1"])
    if "segmentation" in figures:
        scores.append(figures["segmentation"]["miou"])
    return float(sum(scores) / len(scores))
