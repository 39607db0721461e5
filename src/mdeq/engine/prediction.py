"""What a trained model says about pictures: one by one, or as a stream of frames."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from mdeq.data import read_image
from mdeq.engine.bundle import Bundle
from mdeq.engine.tasks import by_task
from mdeq.models import MDEQ, Equilibrium


@dataclass(frozen=True, kw_only=True, eq=False)
class Prediction:
    """The answer for one picture.

    Attributes:
        image: The picture (3, H, W) in 0..1.
        probabilities: Of every class, where the model classifies.
        mask: The class of every pixel (H, W), where the model segments.
        residual: How far from its equilibrium the model answered, if it has one.
        steps: Evaluations of f that its solver took.
        z: The equilibria, one for each dataset of the model: good starts for a similar picture.
    """

    image: Tensor
    probabilities: Tensor | None
    mask: Tensor | None
    residual: float | None
    steps: int | None
    z: list[list[Tensor]]


@torch.no_grad()
def predict(bundle: Bundle, file: str | Path, *, start: Prediction | None = None) -> Prediction:
    """Read a picture, bring it to the size that the model was trained on, and answer.

    The solve starts from the equilibrium of another prediction, if there is one and the pictures
    are of the same size.
    """
    pixels = read_image(file)
    model = bundle.model
    weight = next(model.parameters())
    logits: dict[str, Tensor] = {}
    found: list[Equilibrium] = []
    for part in bundle.parts:
        seen = part.source.fit(pixels, segmenting="segmentation" in part.classes)
        images = part.source.normalise(seen[None].to(weight.device), weight.dtype)
        how: dict[str, Any] = {}
        if isinstance(model, MDEQ):
            how = {"tasks": list(part.classes), "on_equilibrium": found.append}
            if start is not None and start.z and start.image.shape == pixels.shape:
                how["z0"] = start.z[len(found)]
        logits |= {
            task: value.cpu() for task, value in by_task(model(images, **how), part.classes).items()
        }
    mask = None
    if "segmentation" in logits:
        size = (pixels.shape[1], pixels.shape[2])
        mask = interpolate(logits["segmentation"], size, mode="bilinear")[0].argmax(dim=0)
    probabilities = None
    if "classification" in logits:
        probabilities = logits["classification"][0].softmax(dim=0)
    solutions = [equilibrium.solution for equilibrium in found]
    return Prediction(
        image=pixels / 255,
        probabilities=probabilities,
        mask=mask,
        residual=max((float(solution.residual) for solution in solutions), default=None),
        steps=sum(int(solution.steps) for solution in solutions) if solutions else None,
        z=[equilibrium.z for equilibrium in found],
    )


def stream(
    bundle: Bundle, files: Iterable[str | Path], *, warm: bool = True
) -> Iterator[Prediction]:
    """The answers for frames in their order; each solve starts from the equilibrium before it.

    Not `warm`, each starts from zero, as if the frames were pictures of their own.
    """
    before: Prediction | None = None
    for file in files:
        prediction = predict(bundle, file, start=before if warm else None)
        yield prediction
        if all(bool(scale.isfinite().all()) for z in prediction.z for scale in z):
            before = prediction
