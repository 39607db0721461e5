"""The training loop: one for one device, many devices and many machines.

Whatever is random in step k depends on the seed, k and the process alone, and the learning
rate on k; so the state of a run is its weights, its optimiser and k.
"""

import math
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, set_seed
from timm.utils.model_ema import ModelEmaV3

from mdeq.data import SPLITS, Batch, Order, Split, batches, derived_seed, open_split
from mdeq.engine.bundle import BEST, LAST, Bundle, check_classes
from mdeq.engine.checkpoint import load_checkpoint, save_checkpoint, write_checkpoint
from mdeq.engine.duration import in_steps
from mdeq.engine.evaluation import evaluate
from mdeq.engine.interruption import InterruptedRun, Interruption
from mdeq.engine.journal import Journal
from mdeq.engine.optimisation import create_optimiser, create_schedule
from mdeq.engine.recipe import Recipe, plain, read_yaml
from mdeq.engine.run import Run
from mdeq.engine.step import Observed, compute_gradient
from mdeq.engine.synchronised import synchronise_norms
from mdeq.engine.tasks import headline
from mdeq.implicit import Unrolled
from mdeq.models import MDEQ, load_exactly

LOG_EVERY = 10  # steps
DIVERGED = "diverged.ckpt"
STUCK = 10  # steps in a row
ADVICE = (
    "Try a lower optimiser.lr, optimiser.clip 1, a longer shallow.length or softplus.length, a "
    "jacobian_penalty, or a larger model.solver.max_steps."
)


class DivergedError(RuntimeError):
    """Training cannot go on: the loss, the gradient or the equilibrium is not finite."""


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
    """Trains the model of a recipe in the folder of a run.

    Only the main process has a run.
    """

    def __init__(self, recipe: Recipe, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        source = recipe.source
        labelled = source.classes(Path(recipe.data) if recipe.data else None)
        config = recipe.model_config(labelled)
        self.classes = {task: labelled[task] for task in config.tasks}
        self.recipe = recipe = recipe.resolved(config, self.classes)
        with accelerator.main_process_first():  # which may download
            self.examples = {
                split: examples
                for split in SPLITS
                if (
                    examples := open_split(
                        source, split, recipe.data, training=split == "train", seed=recipe.seed
                    )
                )
                is not None
            }
        self._check_batch()
        self.steps_per_epoch = len(self.examples["train"]) // recipe.batch_size
        self.total = in_steps(recipe.length, self.steps_per_epoch)

        set_seed(recipe.seed)
        model = MDEQ(config).to(torch.float64 if recipe.precision == "float64" else torch.float32)
        if recipe.channels_last:
            model = model.to(memory_format=torch.channels_last)
        if accelerator.num_processes > 1:
            synchronise_norms(model)
        if recipe.compile:
            model.f.compile()
        model.to(accelerator.device)
        self.ema = None if recipe.ema is None else ModelEmaV3(model, recipe.ema, use_warmup=True)
        self.model = model
        self.wrapped = accelerator.prepare_model(model)
        self.optimiser = create_optimiser(model, recipe.optimiser)
        self.schedule = create_schedule(
            self.optimiser,
            warmup=in_steps(recipe.optimiser.warmup, self.steps_per_epoch),
            total=self.total,
        )
        self.progress = Progress()
        self._stuck = 0  # steps in a row whose solve ended where it began
        self.run: Run | None = None
        self.journal = Journal(None)

    @property
    def evaluated_model(self) -> MDEQ:
        """What is judged and saved: the averaged weights, where there is an average."""
        return self.model if self.ema is None else self.ema.module

    @property
    def monitored(self) -> Split | None:
        """The split that is looked at during training: test is only looked at, if need be."""
        return next((split for split in SPLITS[1:] if split in self.examples), None)

    def enter(self, run: Run) -> None:
        """Write what there is to write into the folder of a run."""
        self.run, self.journal = run, Journal(run)

    def resume(self) -> None:
        """Go on from the last whole checkpoint of the run."""
        state: dict[str, Any] | None = None
        if self.run is not None:
            state = load_checkpoint(self.run.folder, self.journal.say)
        (state,) = broadcast_object_list([state])
        if state is None:  # it was killed before it could save: begin again
            return
        self._check_same(state["recipe"], state["classes"], state["images"])
        load_exactly(self.model, state["model"], "the checkpoint")
        if self.ema is not None:
            self.ema.module.load_state_dict(state["ema"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.progress = Progress(**state["progress"])
        self.journal.rewind(self.progress.step, self.progress.evaluated)

    def train(self) -> None:
        """Train to the end; save and raise InterruptedRun if a signal comes before it."""
        with Interruption() as interruption, closing(self._batches()) as stream:
            self._train(stream, interruption)
        self.accelerator.wait_for_everyone()

    def test(self) -> dict[str, Any]:
        """The figures of the last weights on the test split, or on what comes closest."""
        split = next(split for split in reversed(SPLITS) if split in self.examples)
        if split == "train":  # there is nothing else; but now the images are not varied
            examples = open_split(self.recipe.source, split, self.recipe.data)
            assert examples is not None
            self.examples[split] = examples
        figures = self._evaluate(split, Interruption())
        assert figures is not None
        parameters = sum(p.numel() for p in self.model.parameters())
        return {
            **figures,
            "split": split,
            "seconds": self.progress.seconds,
            "evaluation_seconds": figures["seconds"],
            "parameters": parameters,
        }

    def _train(self, stream: Iterator[Batch], interruption: Interruption) -> None:
        every = in_steps(self.recipe.evaluation.every, self.steps_per_epoch)
        self.journal.begin(self.progress.step, self.total, self.steps_per_epoch)
        saved = time.monotonic()
        while True:
            step = self.progress.step
            due = step == self.total or (every > 0 and step % every == 0)
            if due and self.progress.evaluated < step:
                self._evaluate_and_save(interruption)
                saved = time.monotonic()
            if step == self.total:
                return
            began = time.perf_counter()
            figures, stop = self._step(next(stream), interruption.signal > 0)
            seconds = time.perf_counter() - began
            self.progress.seconds += seconds
            figures["images_per_second"] = self.recipe.batch_size / seconds
            self.journal.step(self.progress.step, figures, write=self._logged(step))
            if stop:
                self._interrupt(interruption)
            if time.monotonic() - saved > 60 * self.recipe.save_minutes:
                self._save()
                saved = time.monotonic()

    def _batches(self) -> Generator[Batch]:
        accelerator = self.accelerator
        order = Order(
            len(self.examples["train"]),
            self.recipe.batch_size,
            seed=self.recipe.seed,
            start=self.progress.step,
            stop=self.total,
            process=accelerator.process_index,
            processes=accelerator.num_processes,
        )
        cuda = accelerator.device.type == "cuda"
        return batches(self.examples["train"], order, workers=self.recipe.workers, pin_memory=cuda)

    def _step(self, batch: Batch, stop: bool) -> tuple[dict[str, float], bool]:
        """Take one step; its figures, and whether any process was told to stop."""
        step = self.progress.step
        torch.manual_seed(derived_seed(self.recipe.seed, step, self.accelerator.process_index))
        self._set_phase(step)
        self.schedule.step_update(step)
        self.optimiser.zero_grad()
        batch = self._on_device(batch)
        observed = compute_gradient(
            self.wrapped,
            batch,
            self.recipe,
            accelerator=self.accelerator,
            weights=self.recipe.tasks,
            track_scales=self._logged(step),
        )
        figures, broken, stop = observed.reduced(self.accelerator, stop)
        solved = not isinstance(self.model.backward, Unrolled) and self.model.solver.max_steps > 1
        self._stuck = self._stuck + 1 if solved and figures["residual"] >= 1 else 0
        if broken or self._stuck == STUCK:
            self._diverged(batch, observed, figures)
        self.optimiser.step()
        self.progress.step = step + 1
        if self.ema is not None:
            self.ema.update(self.model, step=step + 1)
        figures["lr"] = self.optimiser.param_groups[0]["lr"]
        return figures, stop

    def _set_phase(self, step: int) -> None:
        """The paper's phases: a shallow stack of f first, softplus in its blocks at first."""
        shallow, softplus = self.recipe.shallow, self.recipe.softplus
        if step < in_steps(shallow.length, self.steps_per_epoch):
            self.model.backward = Unrolled(steps=shallow.steps)
        else:
            self.model.backward = self.model.config.backward
        smooth = step < in_steps(softplus.length, self.steps_per_epoch)
        self.model.set_softplus(softplus.beta if smooth else None)

    def _logged(self, step: int) -> bool:
        return (step + 1) % LOG_EVERY == 0

    def _on_device(self, batch: Batch) -> Batch:
        device = self.accelerator.device
        moved = {name: value.to(device, non_blocking=True) for name, value in batch.items()}
        dtype = next(self.model.parameters()).dtype
        image = self.examples["train"].source.normalise(moved["image"], dtype)
        if self.recipe.channels_last:
            image = image.contiguous(memory_format=torch.channels_last)
        return {**moved, "image": image}

    def _evaluate(self, split: Split, interruption: Interruption) -> dict[str, Any] | None:
        # Judged as it will be used: by its equilibrium, whatever phase training is in.
        self.model.backward = self.model.config.backward
        self.model.set_softplus(None)
        return evaluate(
            self.evaluated_model,
            self.examples[split],
            self.classes,
            accelerator=self.accelerator,
            batch_size=self.recipe.evaluation.batch_size,
            workers=self.recipe.workers,
            weights=self.recipe.tasks,
            precision=self.recipe.precision,
            name=split,
            stopped=lambda: interruption.signal > 0,
        )

    def _evaluate_and_save(self, interruption: Interruption) -> None:
        split = self.monitored
        better = split != "val"  # without a validation split nothing is chosen: best is last
        if split is not None:
            figures = self._evaluate(split, interruption)
            if figures is None:
                self._interrupt(interruption)
                return
            if not math.isfinite(figures["loss"]):
                self._keep_diverged([])
                raise DivergedError(
                    f"training diverged before step {self.progress.step}: the loss on {split} is "
                    f"{figures['loss']}. The last good checkpoint stays. {ADVICE}"
                )
            self.journal.evaluation(self.progress.step, split, figures)
            if split == "val" and headline(figures) > self.progress.best:
                self.progress.best, better = headline(figures), True
        self.progress.evaluated = self.progress.step
        if self.run is not None:
            bundle = Bundle(
                model=self.evaluated_model,
                dataset=self.recipe.dataset,
                classes=self.classes,
                tasks=self.recipe.tasks,
                data=self.recipe.data,
            )
            bundle.save(self.run.file(LAST))
            if better:
                bundle.save(self.run.file(BEST))
        self._save()

    def _state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "ema": None if self.ema is None else self.ema.module.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "progress": asdict(self.progress),
            "recipe": self.recipe.to_yaml(),
            "classes": self.classes,
            "images": len(self.examples["train"]),
        }

    def _save(self) -> None:
        if self.run is not None:
            save_checkpoint(self.run.folder, self._state())

    def _interrupt(self, interruption: Interruption) -> None:
        self._save()
        self.accelerator.wait_for_everyone()
        folder = self.run.folder if self.run is not None else "RUN"
        raise InterruptedRun(
            f"stopped at step {self.progress.step} of {self.total}, and saved; "
            f"to go on: mdeq train --resume {folder}",
            interruption.signal or 15,
        )

    def _diverged(self, batch: Batch, observed: Observed, figures: dict[str, float]) -> None:
        """Say what is known, and keep the state beside the last good checkpoint."""
        ids = self.accelerator.gather(batch["id"]).tolist()
        residuals = self.accelerator.gather(torch.cat(observed.residuals)).tolist()
        self._keep_diverged(ids)
        worst = sorted(zip(residuals, ids, strict=True), key=lambda pair: -_order(pair[0]))
        listed = ", ".join(f"{number} ({residual:.2g})" for residual, number in worst[:8])
        where = "" if self.run is None else f" The state is in {self.run.file(DIVERGED)}."
        raise DivergedError(
            f"training diverged at step {self.progress.step + 1}: loss {figures['loss']:.3g}, "
            f"gradient {figures['gradient']:.3g}, residual of f {figures['residual']:.3g}. "
            f"Training samples of this batch, with the residual of each, worst first: {listed}"
            f"{', ...' if len(worst) > 8 else ''}.{where} The last good checkpoint stays. "
            f"{ADVICE}"
        )

    def _keep_diverged(self, ids: list[int]) -> None:
        if self.run is not None:
            write_checkpoint(self.run.file(DIVERGED), {**self._state(), "ids": ids})

    def _check_same(self, recipe: str, classes: dict[str, list[str]], images: int) -> None:
        """A run goes on as what it was: another model or other data would be another run."""
        before, now = (plain(asdict(r)) for r in (Recipe.of(read_yaml(recipe)), self.recipe))
        for name in now:
            if name != "data" and before[name] != now[name]:
                raise ValueError(
                    f"the checkpoint is of another run: its {name} is {before[name]}, that of "
                    f"recipe.yaml is {now[name]}"
                )
        check_classes(classes, self.classes, "the run began with")
        if images != len(self.examples["train"]):
            raise ValueError(
                f"the run began with {images} training images, now there are "
                f"{len(self.examples['train'])}; to train on other data, start a new run"
            )

    def _check_batch(self) -> None:
        size, parts = self.recipe.batch_size, self.recipe.accumulate
        processes = self.accelerator.num_processes
        if size % (processes * parts):
            raise ValueError(
                f"batch_size is {size}; expected a multiple of {processes} processes times "
                f"{parts} parts (accumulate)"
            )
        available = len(self.examples["train"])
        if available < size:
            raise ValueError(
                f"batch_size is {size}, but there are {available} images to train on; lower it"
            )


def _order(value: float) -> float:
    """NaN counts as the largest."""
    return value if value == value else float("inf")
