"""What a trained model says about a picture."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from mdeq.data import read_image
from mdeq.engine.bundle import Bundle
from mdeq.engine.tasks import by_task
from mdeq.models import MDEQ


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """The answer for one picture.

    Attributes:
        image: The picture (3, H, W) in 0..1.
        probabilities: Of every class, where the model classifies.
        mask: The class of every pixel (H, W), where the model segments.
        residual: How far from its equilibrium the model answered, if it has one.
        steps: Evaluations of f that it took.
    """

    image: Tensor
    probabilities: Tensor | None
    mask: Tensor | None
    residual: float | None
    steps: int | None


@torch.no_grad()
def predict(bundle: Bundle, file: str) -> Prediction:
    """Read a picture, bring it to the size that the model was trained on, and answer."""
    pixels = read_image(file)
    source, model = bundle.source, bundle.model
    seen = source.fit(pixels, segmenting="segmentation" in bundle.classes)
    solutions: list[Any] = []
    how: dict[str, Any] = {}
    if isinstance(model, MDEQ):
        how["on_equilibrium"] = lambda equilibrium: solutions.append(equilibrium.solution)
    output = model(source.normalise(seen[None], next(model.parameters()).dtype), **how)
    logits = by_task(output, bundle.classes)
    mask = None
    if "segmentation" in logits:
        size = (pixels.shape[1], pixels.shape[2])
        mask = interpolate(logits["segmentation"], size, mode="bilinear")[0].argmax(dim=0)
    probabilities = None
    if "classification" in logits:
        probabilities = logits["classification"][0].softmax(dim=0)
    return Prediction(
        image=pixels / 255,
        probabilities=probabilities,
        mask=mask,
        residual=float(solutions[0].residual) if solutions else None,
        steps=int(solutions[0].steps) if solutions else None,
    )
