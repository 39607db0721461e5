"""What a person sees of a run while it goes on, and what is kept of it."""

import time
from collections import defaultdict
from collections.abc import Callable
from statistics import harmonic_mean
from typing import Any

from tqdm import tqdm

from mdeq.engine.report import describe, spoken_time
from mdeq.engine.run import TENSORBOARD, Run

EARLY = 10  # steps, after which the time that a run will take is estimated


class Journal:
    """Bars and lines on the terminal, metrics.jsonl, TensorBoard; silent where `run` is None."""

    def __init__(self, run: Run | None) -> None:
        self.run = run
        self.bar: Any = None
        self._since: dict[str, list[float]] = defaultdict(list)  # the last evaluation

    def say(self, message: str) -> None:
        """A line, above the bar."""
        if self.run is not None:
            tqdm.write(message)

    def rewind(self, step: int, evaluated: int) -> None:
        """Forget what was written after the checkpoint that the run goes on from."""
        if self.run is not None:
            self.run.keep_records(
                lambda record: record["step"] <= (step if "train" in record else evaluated)
            )

    def begin(
        self, step: int, total: int, steps_per_epoch: int, effort: Callable[[int], float]
    ) -> None:
        """Open the bar and the files; `effort` is what the steps before a given one cost."""
        self._total, self._steps_per_epoch, self._effort = total, steps_per_epoch, effort
        self._first, self._began = step, time.monotonic()
        if self.run is None:
            return
        from torch.utils.tensorboard import SummaryWriter  # slow to import

        purge = {"purge_step": step + 1} if step else {}
        self.board = SummaryWriter(str(self.run.file(TENSORBOARD)), **purge)
        self.bar = tqdm(initial=step, total=total, desc="train", unit="step", disable=None)

    def step(self, step: int, figures: dict[str, float], *, write: bool) -> None:
        """Show a step; `write` it down too."""
        if self.run is None:
            return
        for name, value in figures.items():
            self._since[name].append(value)
        shown = {"loss": figures["loss"]}
        shown |= {name.split("_")[0]: figures[name] for name in figures if "accuracy" in name}
        shown |= {name: figures[name] for name in ("evaluations", "residual") if name in figures}
        self.bar.set_postfix({name: f"{value:.3g}" for name, value in shown.items()}, refresh=False)
        self.bar.update()
        if step == self._first + EARLY and step < self._total:
            left = self._time_left(step)
            self.say(f"about {left} of training to go, by the first {EARLY} steps")
        if write:
            self.run.append({"step": step, "epoch": self._epoch(step), "train": figures})
            for name, value in figures.items():
                self.board.add_scalar(f"train/{name}", value, step)

    def evaluation(self, step: int, split: str, figures: dict[str, Any]) -> None:
        """Show and write an evaluation, beside the training figures since the one before."""
        if self.run is None:
            return
        mean = {name: sum(values) / len(values) for name, values in self._since.items()}
        if mean:  # of equal steps at different speeds, what their whole time makes of them
            mean["images_per_second"] = harmonic_mean(self._since["images_per_second"])
        self._since.clear()
        self.run.append({"step": step, "epoch": self._epoch(step), split: figures, "mean": mean})
        for name, value in _flat(figures):
            self.board.add_scalar(f"{split}/{name}", value, step)
        self.board.flush()
        words = [f"epoch {self._epoch(step):.3g}", f"step {step}/{self._total}"]
        if mean:
            words.append(f"mean loss {mean['loss']:.3f}")
        words += [f"{split} {text}" for text in describe(figures)]
        if mean:
            words.append(f"{mean['images_per_second']:.0f} images/s")
        if self._first < step < self._total:
            words.append(f"about {self._time_left(step)} left")
        self.say("  ".join(words))

    def close(self) -> None:
        """Close the bar and the files."""
        if self.bar is not None:
            self.bar.close()
            self.board.close()

    def _time_left(self, step: int) -> str:
        done, now, whole = map(self._effort, (self._first, step, self._total))
        return spoken_time((time.monotonic() - self._began) * (whole - now) / (now - done))

    def _epoch(self, step: int) -> float:
        return round(step / self._steps_per_epoch, 4)


def _flat(figures: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    """Every number in nested figures, named by its path."""
    flat = []
    for name, value in figures.items():
        if isinstance(value, dict):
            flat += _flat(value, f"{prefix}{name}/")
        elif isinstance(value, (int, float)):
            flat.append((prefix + name, float(value)))
    return flat
