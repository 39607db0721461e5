"""Steps of training and answers, side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from mdeq.bench.apart import Apart
from mdeq.bench.contestants import Contestant
from mdeq.bench.timing import Spread, interleaved, ratios


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What some work takes, and what that is in multiples of the reference's.

    Attributes:
        seconds: Its time.
        seconds_ratio: Taken turn by turn.
        bytes: That it holds at its peak, above weights and optimiser.
        bytes_ratio: Of the peaks.
    """

    seconds: Spread
    seconds_ratio: Spread
    bytes: int
    bytes_ratio: float


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """The figures of one contestant: of a step of training, and of an answer for the batch."""

    name: str
    parameters: int
    train: Cost
    infer: Cost


def compare_steps(
    contestants: Mapping[str, Apart[Contestant]], *, reference: str, turns: int
) -> list[StepResult]:
    """Measure all in turns; peaks last, since a profiler measures them on CPU."""

    def times(work: Callable[[Contestant], float], title: str) -> dict[str, list[float]]:
        works = {name: partial(each.do, work) for name, each in contestants.items()}
        return interleaved(works, turns=turns, title=title)

    def costs(times: dict[str, list[float]], peak: Callable[[Contestant], int]) -> dict[str, Cost]:
        peaks = {name: each.do(peak) for name, each in contestants.items()}
        return {
            name: Cost(
                seconds=Spread.of(times[name]),
                seconds_ratio=ratios(times[name], times[reference]),
                bytes=peaks[name],
                bytes_ratio=peaks[name] / peaks[reference],
            )
            for name in contestants
        }

    train_times = times(Contestant.train_seconds, "training steps")
    infer_times = times(Contestant.infer_seconds, "inference")
    train = costs(train_times, Contestant.train_bytes)
    infer = costs(infer_times, Contestant.infer_bytes)
    return [
        StepResult(
            name=name,
            parameters=contestant.do(Contestant.parameters),
            train=train[name],
            infer=infer[name],
        )
        for name, contestant in contestants.items()
    ]
