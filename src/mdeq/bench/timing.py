"""Times of several things in turns, since what a machine is good for changes by the minute."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from tqdm import tqdm


@dataclass(frozen=True)
class Spread:
    """The median of several measurements, between their quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of the values."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)

    def __format__(self, spec: str) -> str:
        return f"{self.median:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """How long some work takes, the device's part included."""
    _wait(device)
    began = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - began


def interleaved(
    works: Mapping[str, Callable[[], float]], *, turns: int, title: str, warmups: int = 2
) -> dict[str, list[float]]:
    """The seconds that every work says it took, turn by turn.

    In a turn each comes once, in a rotating order.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    names = list(works)
    rounds = range(-warmups, turns)
    with tqdm(total=len(rounds) * len(names), desc=title, leave=False, disable=None) as bar:
        for turn in rounds:
            for shift in range(len(names)):
                name = names[(turn + shift) % len(names)]
                spent = works[name]()
                if turn >= 0:
                    times[name].append(spent)
                bar.update()
    return times


def ratios(times: Sequence[float], reference: Sequence[float]) -> Spread:
    """Of two works turn by turn."""
    return Spread.of([a / b for a, b in zip(times, reference, strict=True)])


def _wait(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
