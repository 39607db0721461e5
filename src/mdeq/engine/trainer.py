"""The training loop: one for one device, many devices and many machines."""

import math
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list

from mdeq.data import Batch, Split, open_split
from mdeq.engine.bundle import BEST, Bundle, Part, check_classes
from mdeq.engine.checkpoint import load_checkpoint, save_checkpoint, write_checkpoint
from mdeq.engine.divergence import (
    ADVICE,
    EQUILIBRIUM_ADVICE,
    DivergedError,
    Watch,
    describe_divergence,
)
from mdeq.engine.duration import in_steps
from mdeq.engine.evaluation import evaluate, together
from mdeq.engine.interruption import InterruptedRun, Interruption
from mdeq.engine.journal import Journal
from mdeq.engine.learner import Learner
from mdeq.engine.material import Material, alternating, open_materials
from mdeq.engine.recipe import Recipe, plain, read_yaml
from mdeq.engine.run import Run
from mdeq.engine.tasks import headline
from mdeq.engine.windows import Window
from mdeq.models import LAST, MDEQ

LOG_EVERY = 10  # steps
DIVERGED = "diverged.ckpt"


@dataclass
class Progress:
    """How far a run has come.

    Attributes:
        step: Steps of the optimiser that are done.
        evaluated: The step of the last evaluation.
        best: The score of the best evaluation on the validation split.
        seconds: Time spent on training, evaluation not included.
    """

    step: int = 0
    evaluated: int = 0
    best: float = -1.0
    seconds: float = 0.0


class Trainer:
    """Trains the model of a recipe in the folder of a run, which only the main process has."""

    def __init__(self, recipe: Recipe, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        with accelerator.main_process_first():  # which may download
            self.materials = open_materials(recipe)
        labelled = {task: names for m in self.materials for task, names in m.classes.items()}
        config = recipe.model_config(labelled)
        self.classes = {task: labelled[task] for task in config.tasks}
        self.colours = next((m.colours for m in self.materials if m.colours), [])
        self.recipe = recipe = recipe.resolved(config, self.classes)
        self._check_batches()
        for material in self.materials:
            if not self.classes_of(material):
                raise ValueError(
                    f"no task of {material.name} has a weight in tasks, so it would not "
                    f"be learnt from; say --tasks.{next(iter(material.classes))} 1"
                )
        if recipe.evaluation.window and not any(map(self.window_of, self.materials)):
            raise ValueError(
                "evaluation.window is for data that have masks and nothing else; leave it out"
            )
        first = self.materials[0]
        self.steps_per_epoch = len(self.materials) * first.steps_per_epoch
        self.total = in_steps(recipe.length, self.steps_per_epoch)
        self.learner = Learner(
            recipe,
            config,
            self.classes,
            accelerator,
            total=self.total,
            steps_per_epoch=self.steps_per_epoch,
        )
        self.progress = Progress()
        self.watch = Watch()
        self._latest: tuple[Any, dict[str, Any]] | None = None
        self.run: Run | None = None
        self.journal = Journal(None)

    def classes_of(self, material: Material) -> dict[str, list[str]]:
        """Of the tasks that the run uses a dataset for."""
        return {task: names for task, names in self.classes.items() if task in material.classes}

    def window_of(self, material: Material) -> Window | None:
        """Of the parts that the images of a dataset are segmented in, if it has masks alone."""
        alone = list(self.classes_of(material)) == ["segmentation"]
        return self.recipe.evaluation.window if alone else None

    def enter(self, run: Run) -> None:
        """Write what there is to write into the folder of a run."""
        self.run, self.journal = run, Journal(run)

    def resume(self) -> bool:
        """Go on from the last whole checkpoint of the run; False if there is none yet."""
        state: dict[str, Any] | None = None
        if self.run is not None:
            state = load_checkpoint(self.run.folder, self.journal.say)
        (state,) = broadcast_object_list([state])
        if state is not None:
            self._check_same(state["recipe"], state["classes"], state["images"])
            self.learner.load(state)
            self.progress = Progress(**state["progress"])
        self.journal.rewind(self.progress.step, self.progress.evaluated)
        return state is not None

    def train(self) -> None:
        """Train to the end; save and raise InterruptedRun if a signal comes before it."""
        with Interruption() as interruption, closing(self._batches()) as stream:
            self._train(stream, interruption)
        self.accelerator.wait_for_everyone()

    def pace(self, seconds: float) -> float:
        """The seconds that a step takes, by trying steps for so long.

        The weights are not those of a beginning after it.
        """
        taken: list[float] = []
        began = time.perf_counter()
        with closing(self._batches()) as stream:
            while len(taken) < 4 or (
                time.perf_counter() - began < seconds and self.progress.step < self.total
            ):
                before = self.progress.seconds
                self._step(stream, Interruption())
                taken.append(self.progress.seconds - before)
        later = taken[len(taken) // 2 :]  # the first are slower, or, in an ODE, faster
        return sum(later) / len(later)

    def test(self) -> dict[str, Any]:
        """The figures of the last weights on the test split, or on what comes closest."""
        for material in self.materials:
            if material.last_split() == "train":  # but now the images are not varied
                examples = open_split(material.source, "train", material.data)
                assert examples is not None
                material.examples["train"] = examples
        splits = [material.last_split() for material in self.materials]
        figures = self._evaluate(splits, Interruption())
        assert figures is not None
        return {
            **figures,
            "seconds": self.progress.seconds,
            "evaluation_seconds": figures["seconds"],
            "parameters": sum(p.numel() for p in self.learner.model.parameters()),
        }

    def _train(self, stream: Iterator[tuple[Material, Batch]], interruption: Interruption) -> None:
        every = in_steps(self.recipe.evaluation.every, self.steps_per_epoch)
        self.journal.begin(
            self.progress.step, self.total, self.steps_per_epoch, self.learner.effort
        )
        saved = time.monotonic()
        while True:
            step = self.progress.step
            due = step == self.total or (every > 0 and step % every == 0)
            if due and self.progress.evaluated < step:
                self._evaluate_and_save(interruption)
                saved = time.monotonic()
            if step == self.total:
                return
            if self._step(stream, interruption):
                self._interrupt(interruption)
            if time.monotonic() - saved > 60 * self.recipe.save_minutes:
                self.save()
                saved = time.monotonic()

    def _batches(self) -> Generator[tuple[Material, Batch]]:
        return alternating(
            self.materials,
            self.recipe,
            self.accelerator,
            start=self.progress.step,
            stop=self.total,
        )

    def _step(self, stream: Iterator[tuple[Material, Batch]], interruption: Interruption) -> bool:
        """Take one step; whether any process was told to stop."""
        step = self.progress.step
        began = time.perf_counter()
        material, batch = next(stream)
        loaded = time.perf_counter()
        # Of several datasets each in turn, so that all are seen.
        turn = step // len(self.materials) + 1
        logged = turn % LOG_EVERY == 0 or step + 1 == self.total
        observed = self.learner.look(step, batch, material.source, track_scales=logged)
        figures, broken, stop = observed.reduced(self.accelerator, interruption.signal > 0)
        if self.watch.diverged(observed, figures.get("residual", 0.0), broken=broken):
            device = self.accelerator.device
            ids = self.accelerator.gather(batch["id"].to(device)).tolist()
            residuals: list[float] = []
            if observed.residuals:
                residuals = self.accelerator.gather(torch.cat(observed.residuals)).tolist()
            known = describe_divergence(step + 1, figures, ids, residuals, of=material.name)
            self._diverge(known, ids)
        self.learner.move(step)
        self.progress.step = step + 1
        seconds = time.perf_counter() - began
        self.progress.seconds += seconds
        figures["lr"] = self.learner.optimiser.param_groups[0]["lr"]
        figures["images_per_second"] = material.batch_size / seconds
        figures["data_share"] = (loaded - began) / seconds
        self.journal.step(step + 1, figures, write=logged)
        return stop

    def _evaluate(
        self, splits: Sequence[Split | None], interruption: Interruption
    ) -> dict[str, Any] | None:
        """The figures of all datasets, each on its split; None if interrupted."""
        now = (tuple(splits), self.progress.step)
        if self._latest and self._latest[0] == now:  # the end of training, without a val split
            return self._latest[1]
        parts = []
        for material, split in zip(self.materials, splits, strict=True):
            if split is None:
                continue
            figures = evaluate(
                self.learner.judged,
                material.examples[split],
                self.classes_of(material),
                accelerator=self.accelerator,
                batch_size=material.evaluation_batch_size,
                workers=self.recipe.workers,
                weights=self.recipe.tasks,
                precision=self.recipe.precision,
                window=self.window_of(material),
                stopped=lambda: interruption.signal > 0,
            )
            if figures is None:
                return None
            parts.append(figures)
        self._latest = (now, together(parts))
        return self._latest[1]

    def _evaluate_and_save(self, interruption: Interruption) -> None:
        """Evaluate on validation splits. Without one, look at test splits, choose nothing."""
        splits = [material.chosen_split() for material in self.materials]
        if "val" in splits:
            splits = [split if split == "val" else None for split in splits]
        split = next((split for split in splits if split is not None), None)
        better = split != "val"
        if split is not None:
            figures = self._evaluate(splits, interruption)
            if figures is None:
                self._interrupt(interruption)
            if not math.isfinite(figures["loss"]):
                step = self.progress.step
                self._diverge(
                    f"training diverged before step {step}: the {split} loss is not finite.", []
                )
            self.journal.evaluation(self.progress.step, split, figures)
            if split == "val" and headline(figures) > self.progress.best:
                self.progress.best, better = headline(figures), True
        self.progress.evaluated = self.progress.step
        if self.run is not None:
            parts = [
                Part(
                    dataset={"name": material.name, **asdict(material.source)},
                    classes=self.classes_of(material),
                    data=None if material.data is None else str(Path(material.data).resolve()),
                    batch_size=material.evaluation_batch_size,
                    window=self.window_of(material),
                )
                for material in self.materials
            ]
            bundle = Bundle(
                model=self.learner.judged,
                parts=parts,
                tasks=self.recipe.tasks,
                colours=self.colours,
            )
            bundle.save(self.run.file(LAST))
            if better:
                bundle.save(self.run.file(BEST))
        self.save()

    def _state(self) -> dict[str, Any]:
        return {
            **self.learner.state(),
            "progress": asdict(self.progress),
            "recipe": self.recipe.to_yaml(),
            "classes": self.classes,
            "images": [len(material.examples["train"]) for material in self.materials],
        }

    def save(self) -> None:
        """Write a checkpoint."""
        if self.run is not None:
            save_checkpoint(self.run.folder, self._state())

    def _interrupt(self, interruption: Interruption) -> NoReturn:
        """Save, and say how to go on."""
        self.save()
        self.accelerator.wait_for_everyone()
        folder = self.run.folder if self.run is not None else "RUN"
        raise InterruptedRun(
            f"stopped at step {self.progress.step} of {self.total}, and saved; "
            f"to go on: mdeq train --resume {folder}",
            interruption.signal or 15,
        )

    def _diverge(self, known: str, ids: list[int]) -> NoReturn:
        """Keep the state, beside the last good checkpoint, and say what is known."""
        if self.run is not None:
            file = self.run.file(DIVERGED)
            write_checkpoint(file, {**self._state(), "ids": ids})
            known += f" The state is in {file}, and the last good checkpoint stays."
        solved = isinstance(self.learner.model, MDEQ)
        raise DivergedError(f"{known} {EQUILIBRIUM_ADVICE if solved else ADVICE}")

    def _check_same(self, recipe: str, classes: dict[str, list[str]], images: list[int]) -> None:
        """A run goes on as what it was: another model or other data would be another run."""
        before, now = (plain(asdict(r)) for r in (Recipe.of(read_yaml(recipe)), self.recipe))
        for values in (before, now):  # where data lie may change
            values.pop("data")
            values["second"].pop("data", None)
        for name in now:
            if before[name] != now[name]:
                raise ValueError(
                    f"the checkpoint is of another run: its {name} is {before[name]}, that of "
                    f"recipe.yaml is {now[name]}"
                )
        check_classes(classes, self.classes, "the run began with")
        now_images = [len(material.examples["train"]) for material in self.materials]
        if images != now_images:
            raise ValueError(
                f"the run began with {_listed(images)} training images, now there are "
                f"{_listed(now_images)}; to train on other data, start a new run"
            )

    def _check_batches(self) -> None:
        processes, parts = self.accelerator.num_processes, self.recipe.accumulate
        for index, material in enumerate(self.materials):
            name = "second.batch_size" if index else "batch_size"
            size, available = material.batch_size, len(material.examples["train"])
            if size % (processes * parts):
                raise ValueError(
                    f"{name} is {size}; expected a multiple of {processes} processes times "
                    f"{parts} parts (accumulate)"
                )
            if available < size:
                raise ValueError(
                    f"{name} is {size}, but there are {available} images to train on; lower it"
                )


def _listed(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers))
