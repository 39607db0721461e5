"""Steps of training and answers, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mdeq.bench.contestants import Contestant
from mdeq.bench.timing import Spread, interleaved, ratios
from mdeq.measure import peak_memory


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """The figures of one contestant, and their ratios to the reference's.

    Attributes:
        name: Of the contestant.
        parameters: Of its model.
        train_seconds: Of a step of training.
        train_ratio: The same in multiples of the reference's, turn by turn.
        train_bytes: That a step holds at its peak, above weights and optimiser.
        train_bytes_ratio: In multiples of the reference's.
        infer_seconds: Of an answer for the batch.
        infer_ratio: In multiples of the reference's, turn by turn.
        infer_bytes: That an answer holds at its peak, above the weights.
        infer_bytes_ratio: In multiples of the reference's.
    """

    name: str
    parameters: int
    train_seconds: Spread
    train_ratio: Spread
    train_bytes: int
    train_bytes_ratio: float
    infer_seconds: Spread
    infer_ratio: Spread
    infer_bytes: int
    infer_bytes_ratio: float


def compare_steps(
    contestants: Sequence[Contestant], *, reference: str, turns: int, device: torch.device
) -> list[StepResult]:
    """Measure all in turns; peaks last, since a profiler measures them on CPU."""
    train = interleaved(
        {c.name: c.train for c in contestants}, turns=turns, device=device, title="training steps"
    )
    infer = interleaved(
        {c.name: c.infer for c in contestants}, turns=turns, device=device, title="inference"
    )
    train_bytes, infer_bytes = {}, {}
    for contestant in contestants:
        contestant.model.zero_grad()  # gradients are the step's own
        train_bytes[contestant.name] = peak_memory(contestant.train, device)
        infer_bytes[contestant.name] = peak_memory(contestant.infer, device)
    return [
        StepResult(
            name=c.name,
            parameters=c.parameters,
            train_seconds=Spread.of(train[c.name]),
            train_ratio=ratios(train[c.name], train[reference]),
            train_bytes=train_bytes[c.name],
            train_bytes_ratio=train_bytes[c.name] / train_bytes[reference],
            infer_seconds=Spread.of(infer[c.name]),
            infer_ratio=ratios(infer[c.name], infer[reference]),
            infer_bytes=infer_bytes[c.name],
            infer_bytes_ratio=infer_bytes[c.name] / infer_bytes[reference],
        )
        for c in contestants
    ]
