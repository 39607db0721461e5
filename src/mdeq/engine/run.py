"""The folder of a run: one process at a time writes into it."""

import json
from collections.abc import Callable, Iterator
from itertools import count, takewhile
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from mdeq.engine.checkpoint import write_atomically

RUNS = Path("runs")
RECIPE = "recipe.yaml"
METRICS = "metrics.jsonl"
SUMMARY = "summary.png"
TENSORBOARD = "tensorboard"


class Run:
    """A folder, locked for this process until it ends, however it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = FileLock(folder / ".lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ValueError(
                f"{folder} is in use by another process; wait for it, or choose another --output"
            ) from None
        except OSError as error:
            raise _unwritable(folder, error) from None

    @classmethod
    def create(cls, name: str, output: str | None) -> Self:
        """A new folder: `output`, or the next free one in runs/."""
        folder = _free(RUNS, name) if output is None else Path(output)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(folder, error) from None
        run = cls(folder)
        if (folder / RECIPE).exists():
            run.close()
            raise ValueError(
                f"{folder} holds a run already; continue it with `mdeq train --resume {folder}`, "
                "or choose another --output"
            )
        return run

    def file(self, name: str) -> Path:
        """A file of the run."""
        return self.folder / name

    def write(self, name: str, text: str) -> None:
        """Write a text file whole."""
        write_atomically(self.file(name), text.encode())

    def append(self, record: dict[str, Any]) -> None:
        """Add a line to the metrics."""
        with self.file(METRICS).open("a") as metrics:
            metrics.write(json.dumps(record) + "\n")

    def records(self) -> Iterator[dict[str, Any]]:
        """Every line of the metrics."""
        if self.file(METRICS).exists():
            yield from read_records(self.file(METRICS))

    def keep_records(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Drop the other lines: those written after the checkpoint that the run goes on from."""
        kept = [json.dumps(record) + "\n" for record in self.records() if wanted(record)]
        self.write(METRICS, "".join(kept))

    def close(self) -> None:
        """Let other processes have the folder."""
        self._lock.release()


def read_records(metrics: Path) -> Iterator[dict[str, Any]]:
    """Every line of the metrics of a run; one that was cut short at the end is left out."""
    for line in metrics.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def last_unfinished(name: str) -> Path | None:
    """The last run of this name in runs/, if it has not come to its end."""
    *_, last = [None, *_taken(RUNS, name)]
    unfinished = last is not None and (last / RECIPE).exists() and not (last / SUMMARY).exists()
    return last if unfinished else None


def _taken(parent: Path, name: str) -> list[Path]:
    """The folders of this name: name, name-2, and so on."""
    numbered = (parent / (name if k == 1 else f"{name}-{k}") for k in count(1))
    return list(takewhile(Path.exists, numbered))


def _free(parent: Path, name: str) -> Path:
    number = len(_taken(parent, name)) + 1
    return parent / (name if number == 1 else f"{name}-{number}")


def _unwritable(folder: Path, error: OSError) -> ValueError:
    reason = error.strerror or error
    return ValueError(f"cannot write to {folder} ({reason}); choose another --output")
