"""What the tasks are trained for."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from mdeq.data import IGNORED
from mdeq.engine.recipe import Recipe
from mdeq.solvers import unknown

Loss = Callable[[Tensor, Tensor], Tensor]


def task_loss(task: str, logits: Tensor, target: Tensor) -> Tensor:
    """The mean cross-entropy, over images or over the pixels that belong to a class."""
    return pixel_loss(logits, target) if task == "segmentation" else cross_entropy(logits, target)


def training_losses(recipe: Recipe, classes: Mapping[str, list[str]]) -> dict[str, Loss]:
    """The loss of every task as the recipe asks for it."""
    losses: dict[str, Loss] = {}
    if "classification" in classes:
        smoothing = recipe.label_smoothing
        losses["classification"] = partial(cross_entropy, label_smoothing=smoothing)
    if "segmentation" in classes:
        pixels, names = recipe.pixels, classes["segmentation"]
        for name in pixels.class_weights:
            if name not in names:
                raise ValueError(
                    f"{unknown('class in pixels.class_weights', name, names)}; to weigh none, say "
                    '--pixels.class_weights "{}"'
                )
        weights = torch.tensor([pixels.class_weights.get(name, 1.0) for name in names])
        losses["segmentation"] = partial(
            pixel_loss,
            weights=weights if pixels.class_weights else None,
            hard_below=pixels.hard_below,
            hard_share=pixels.hard_share,
        )
    return losses


def pixel_loss(
    logits: Tensor,
    target: Tensor,
    *,
    weights: Tensor | None = None,
    hard_below: float | None = None,
    hard_share: float = 0.0,
) -> Tensor:
    """The mean cross-entropy over the pixels that belong to a class; zero where none does.

    Args:
        logits: (B, K, H, W).
        target: (B, H, W), IGNORED for pixels of no class.
        weights: Of every class in the mean.
        hard_below: Count only pixels whose class was given a lower probability than this, ...
        hard_share: ... but of all pixels at least this share, those of the lowest probability.
    """
    target = target.long()
    surprise = cross_entropy(logits, target, ignore_index=IGNORED, reduction="none")
    counted = (target != IGNORED).to(logits.dtype)
    if weights is not None:
        counted = counted * weights.to(logits)[target.where(target != IGNORED, 0)]
    if hard_below is not None:
        found = (-surprise.detach()).exp().masked_fill(target == IGNORED, 2.0)
        least = max(1, int(hard_share * found.numel()))
        border = found.flatten().kthvalue(least).values.clamp(min=hard_below)
        counted = counted * (found <= border)
    return (surprise * counted).sum() / counted.sum().clamp(min=torch.finfo(logits.dtype).tiny)
