"""Batches in an order, and with an augmentation, that depend on seed, epoch and index alone.

No state is kept anywhere: a loader that begins at batch k yields what any other yields from
there on, whatever the number of workers. That is what makes a resumed run exact.
"""

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate
from torchvision.transforms import v2

from mdeq.data.errors import DataError
from mdeq.data.source import Samples, Source, Split

Key = tuple[int, int]  # epoch, index

Batch = dict[str, Any]  # "image", "id" and the target of every task, stacked


class Examples(Dataset[Batch | DataError]):
    """Samples of a split, varied and brought to size, under keys (epoch, index).

    A sample that cannot be read is returned as the error: raised in a worker, it would reach
    the user wrapped in the worker's traceback.
    """

    def __init__(
        self, source: Source, samples: Samples, split: Split, *, training: bool, seed: int
    ) -> None:
        self.source, self.samples, self.split, self.seed = source, samples, split, seed
        transforms = source.transforms(training=training)
        self.transform = v2.Compose(transforms) if transforms else None

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, key: Key) -> Batch | DataError:
        epoch, index = key
        try:
            sample = self.samples[index]
        except DataError as error:
            return error
        if self.transform is None:
            return {"id": index, **sample}
        with torch.random.fork_rng(devices=[]):  # transforms draw from the global generator
            torch.default_generator.manual_seed(derived_seed(self.seed, epoch, index))
            return {"id": index, **self.transform(sample)}


def open_split(
    source: Source,
    split: Split,
    folder: str | None = None,
    *,
    training: bool = False,
    seed: int = 0,
) -> Examples | None:
    """The examples of a split, varied if they are for `training`; None where there are none."""
    samples = source.samples(split, None if folder is None else Path(folder))
    if samples is None:
        return None
    return Examples(source, samples, split, training=training, seed=seed)


class Order(Sampler[list[Key]]):
    """The keys of every batch for one process, shuffled anew every epoch, from batch `start` on.

    A batch is dealt out to the processes in turns, so together they see what one process
    with the whole batch sees. What is left over at the end of an epoch is left out of it.
    """

    def __init__(
        self,
        examples: int,
        batch_size: int,
        *,
        seed: int,
        start: int = 0,
        stop: int,
        process: int = 0,
        processes: int = 1,
    ) -> None:
        self.examples, self.batch_size, self.seed = examples, batch_size, seed
        self.start, self.stop = start, stop
        self.process, self.processes = process, processes

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[list[Key]]:
        batches = self.examples // self.batch_size
        shuffled, order = -1, np.empty(0, np.int64)
        for number in range(self.start, self.stop):
            epoch, batch = divmod(number, batches)
            if epoch != shuffled:
                shuffled = epoch
                order = np.random.default_rng([self.seed, epoch]).permutation(self.examples)
            indices = order[batch * self.batch_size : (batch + 1) * self.batch_size]
            yield [(epoch, int(index)) for index in indices[self.process :: self.processes]]


class Once(Sampler[list[Key]]):
    """The keys of every batch for one process, each example exactly once among all processes."""

    def __init__(
        self, examples: int, batch_size: int, *, process: int = 0, processes: int = 1
    ) -> None:
        self.indices = range(examples)[process::processes]
        self.batch_size = batch_size

    def __len__(self) -> int:
        return -(-len(self.indices) // self.batch_size)

    def __iter__(self) -> Iterator[list[Key]]:
        for first in range(0, len(self.indices), self.batch_size):
            yield [(0, index) for index in self.indices[first : first + self.batch_size]]


def batches(
    examples: Examples, order: Sampler[list[Key]], *, workers: int, pin_memory: bool = False
) -> Generator[Batch]:
    """Load the batches of an order; the first unreadable sample raises its DataError.

    Images of different sizes, as some datasets have them in evaluation, do not fit into one
    batch: they come in one for each size. Close it if you stop before its end: its workers go on
    until then.
    """
    loader = DataLoader(
        examples,
        batch_sampler=order,
        num_workers=min(workers, _usable_cores()),  # what they load does not depend on it
        collate_fn=_collate,
        pin_memory=pin_memory,
        generator=torch.Generator(),  # so that the global one is left alone
        worker_init_fn=_leave_signals_to_the_main_process,
    )
    stream = iter(loader)
    try:
        for parts in stream:
            if isinstance(parts, DataError):
                raise parts
            yield from parts
    except RuntimeError as error:  # what a worker raised, its traceback in the message
        if not workers:
            raise
        reason = str(error).strip().splitlines()[-1]
        raise DataError(f"a process that loads data failed ({reason}); try --workers 0") from None
    finally:
        if workers:  # an error's traceback may keep the stream alive, and they would never end
            stream._shutdown_workers()  # type: ignore[attr-defined]


def derived_seed(*parts: int) -> int:
    """A seed of 63 bits that changes with every part."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not everywhere; containers may have fewer than all
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _leave_signals_to_the_main_process(worker: int) -> None:
    """Ctrl-C reaches every process of a terminal; workers end when `batches` is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _collate(items: list[Batch | DataError]) -> list[Batch] | DataError:
    """A batch for every size of image."""
    by_size: dict[tuple[int, ...], list[Batch]] = {}
    for item in items:
        if isinstance(item, DataError):
            return item
        by_size.setdefault(tuple(item["image"].shape), []).append(item)
    return [default_collate(alike) for alike in by_size.values()]
