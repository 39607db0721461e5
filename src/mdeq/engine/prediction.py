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
        z: The equilibrium: a good start for a similar picture.
    """

    image: Tensor
    probabilities: Tensor | None
    mask: Tensor | None
    residual: float | None
    steps: int | None
    z: list[Tensor] | None


@torch.no_grad()
def predict(bundle: Bundle, file: str | Path, *, start: Prediction | None = None) -> Prediction:
    """Read a picture, bring it to the size that the model was trained on, and answer.

    The solve starts from the equilibrium of another prediction, if there is one and the pictures
    are of the same size.
    """
    pixels = read_image(file)
    source, model = bundle.source, bundle.model
    seen = source.fit(pixels, segmenting="segmentation" in bundle.classes)
    found: list[Equilibrium] = []
    how: dict[str, Any] = {}
    if isinstance(model, MDEQ):
        how["on_equilibrium"] = found.append
        if start is not None and start.image.shape == pixels.shape:
            how["z0"] = start.z
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
        residual=float(found[0].solution.residual) if found else None,
        steps=int(found[0].solution.steps) if found else None,
        z=found[0].z if found else None,
    )


def stream(
    bundle: Bundle, files: Iterable[str | Path], *, warm: bool = True
) -> Iterator[Prediction]:
    """The answers for frames in their order; each solve starts from the equilibrium before it.

    Not `warm`, each starts from zero, as if the frames were pictures of their own.
    """
    before: Prediction | None = None
    for file in files:
        before = predict(bundle, file, start=before if warm else None)
        yield before
