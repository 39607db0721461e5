"""Steps of training and answers, side by side."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from mdeq.bench.apart import Apart
from mdeq.bench.contestants import Contestant
from mdeq.bench.timing import Spread, interleaved, ratios


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
    contestants: Mapping[str, Apart[Contestant]], *, reference: str, turns: int
) -> list[StepResult]:
    """Measure all in turns; peaks last, since a profiler measures them on CPU."""
    train = interleaved(
        {name: partial(c.do, Contestant.train_seconds) for name, c in contestants.items()},
        turns=turns,
        title="training steps",
    )
    infer = interleaved(
        {name: partial(c.do, Contestant.infer_seconds) for name, c in contestants.items()},
        turns=turns,
        title="inference",
    )
    train_bytes = {name: c.do(Contestant.train_bytes) for name, c in contestants.items()}
    infer_bytes = {name: c.do(Contestant.infer_bytes) for name, c in contestants.items()}
    return [
        StepResult(
            name=name,
            parameters=contestant.do(Contestant.parameters),
            train_seconds=Spread.of(train[name]),
            train_ratio=ratios(train[name], train[reference]),
            train_bytes=train_bytes[name],
            train_bytes_ratio=train_bytes[name] / train_bytes[reference],
            infer_seconds=Spread.of(infer[name]),
            infer_ratio=ratios(infer[name], infer[reference]),
            infer_bytes=infer_bytes[name],
            infer_bytes_ratio=infer_bytes[name] / infer_bytes[reference],
        )
        for name, contestant in contestants.items()
    ]
